//! State of a data plane that outlives its controller: maps and links in a BPF file system, and the
//! load parameters in a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::{fs::statfs, mount::MountFlags};
use serde::{Serialize, de::DeserializeOwned};

use crate::lock::{Lock, Refused};

const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Keeps the load parameters for `status`, `top` and `explain`.
///
/// # Errors
/// The file cannot be written.
pub fn save(parameters: &impl Serialize, pins: &Path) -> anyhow::Result<()> {
    let path = file(pins);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(&path, serde_json::to_vec(parameters)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Takes the right to control the data plane at `pins`, until the result is dropped: a second
/// controller would replace the program under the first one.
///
/// # Errors
/// Another process has it.
pub fn control(pins: &Path) -> anyhow::Result<impl Sized> {
    let path = file(pins).with_extension("lock");
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}; run as root", directory.display()))?;
    }
    Lock::take(&path, "enroute switch attach").map_err(|refused| match refused {
        Refused::Held(holder) => anyhow!(
            "the data plane at {} is controlled by {holder}; stop that process, or use another --pins",
            pins.display()
        ),
        Refused::Failed(error) => anyhow!("cannot lock {}; run as root: {error}", path.display()),
    })
}

/// A BPF file system holds no plain file.
fn file(pins: &Path) -> PathBuf {
    let name = pins.to_string_lossy().replace('/', "-");
    Path::new("/run/enroute").join(format!("switch{name}.json"))
}

/// Returns the parameters with which the data plane at `pins` was loaded: by the command `attach`,
/// of a build that `is_this`.
///
/// # Errors
/// No data plane is loaded there, or another build loaded it.
pub fn saved<P: DeserializeOwned>(
    pins: &Path,
    attach: &str,
    is_this: impl FnOnce(&P) -> bool,
) -> anyhow::Result<P> {
    let text = fs::read(file(pins)).with_context(|| {
        format!("no data plane is loaded at {}; run `{attach}`", pins.display())
    })?;
    let saved: P = serde_json::from_slice(&text).with_context(|| {
        format!("{} is damaged; run `{attach}` to replace it", file(pins).display())
    })?;
    ensure!(
        is_this(&saved),
        "the data plane at {} belongs to another version; run `{attach}` to replace it",
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
