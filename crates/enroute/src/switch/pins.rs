//! State that outlives the controller: maps and links in a BPF file system, and the load parameters
//! in a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use policy::hotkey;
use rustix::{fs::statfs, mount::MountFlags};
use serde::{Deserialize, Serialize};
use switch::plane::{Config, Values};

const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Raised whenever `bpf/layout.h` changes: maps of another layout are not reused.
pub const LAYOUT: u32 = 8;

/// Load parameters of a data plane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Saved {
    /// [`LAYOUT`] of the build that loaded it; 0 for older builds.
    #[serde(default)]
    pub layout: u32,
    /// UDP port of NetCache's protocol.
    pub netcache_port: u16,
    /// Port of memcached.
    pub memcache_port: u16,
    /// Places for keys.
    pub entries: u32,
    /// Rows of register arrays; 0 for fixed slots.
    pub rows: u32,
    /// Sampled accesses from which a key is hot.
    pub threshold: u16,
    /// Accesses sampled, in 65,536ths.
    pub sampled_per_65536: u32,
    /// Counters in a row of the count-min sketch, as a power of two.
    pub sketch_bits: u32,
    /// Bits in a row of the Bloom filter, as a power of two.
    pub filter_bits: u32,
    /// Secret of the hash functions.
    pub seed: u64,
}

impl Saved {
    /// The same for the loader.
    pub fn config(&self, pins: PathBuf) -> Config {
        Config {
            netcache_port: self.netcache_port,
            memcache_port: self.memcache_port,
            entries: self.entries,
            values: if self.rows == 0 {
                Values::Slots
            } else {
                Values::Registers { rows: self.rows }
            },
            statistics: hotkey::Config {
                threshold: self.threshold,
                sampled_per_65536: self.sampled_per_65536,
                sketch_width_bits: self.sketch_bits,
                filter_width_bits: self.filter_bits,
                ..hotkey::Config::default()
            },
            seed: self.seed,
            pins: Some(pins),
        }
    }

    /// Keeps it for `status`, `top` and `explain`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, pins: &Path) -> anyhow::Result<()> {
        let path = file(pins);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&path, serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A BPF file system holds no plain file.
fn file(pins: &Path) -> PathBuf {
    let name = pins.to_string_lossy().replace('/', "-");
    Path::new("/run/enroute").join(format!("switch{name}.json"))
}

/// What the data plane at `pins` was loaded with.
///
/// # Errors
/// There is none.
pub fn saved(pins: &Path) -> anyhow::Result<Saved> {
    let text = fs::read(file(pins)).with_context(|| {
        format!("no data plane is loaded at {}; run `enroute switch attach`", pins.display())
    })?;
    let saved: Saved = serde_json::from_slice(&text).with_context(|| {
        format!("{} is damaged; run `enroute switch attach` to replace it", file(pins).display())
    })?;
    ensure!(
        saved.layout == LAYOUT,
        "the data plane at {} belongs to another version; run `enroute switch attach` to replace it",
        pins.display()
    );
    Ok(saved)
}

/// Makes sure that `pins` is on a BPF file system.
///
/// # Errors
/// It is not, and none can be mounted.
pub fn mount(pins: &Path) -> anyhow::Result<()> {
    let root = pins.parent().context("--pins: expected a directory below a BPF file system")?;
    if !root.exists() {
        bail!("{} does not exist; create it, or use another --pins", root.display());
    }
    let is_bpf = |path: &Path| statfs(path).is_ok_and(|found| found.f_type == BPF_FS_MAGIC);
    if !is_bpf(root) {
        rustix::mount::mount("bpf", root, "bpf", MountFlags::empty(), None)
            .with_context(|| format!("cannot mount a BPF file system at {}", root.display()))?;
    }
    Ok(())
}

/// Removes every pin and the file beside them.
///
/// # Errors
/// One cannot be removed.
pub fn remove(pins: &Path) -> anyhow::Result<()> {
    for gone in [fs::remove_dir_all(pins), fs::remove_file(file(pins))] {
        match gone {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", pins.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
