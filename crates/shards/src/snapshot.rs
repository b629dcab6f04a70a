//! RDB files of Redis: export from, and import to, a data directory that no process serves.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use db::rdb::shards::{self, Offline};
use platform::directory::{sync_name, why};
use store::{
    FileDevice,
    device::FileName,
    elastic::{Config, Elastic, Sync, Warming, shard_name},
};

use crate::{
    directory,
    opening::{self, Opened, SHARDS_NEW},
};

/// Memory of all shards while a file is read or written. The data can be larger.
const MEMORY_BYTES: usize = 256 << 20;

/// What was exported or imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Number of entries.
    pub entries: u64,
    /// Length of the file, in bytes.
    pub bytes: u64,
}

/// Writes all entries of the database in `path` to a new RDB file, for its owner only. The file has
/// this name once it is complete and durable. Calls `report` with the number of bytes written.
///
/// # Errors
/// A process serves the directory; something in it is damaged or missing; the file exists or cannot
/// be written. It is not created then.
pub fn export(
    path: &Path,
    file: &Path,
    now: Duration,
    report: impl FnMut(u64),
) -> anyhow::Result<Done> {
    let shown = path.display();
    if path.join(FileName::Backup.to_string()).exists() {
        bail!(
            "{shown} is a backup; expected a data directory. Run `enroute db restore {shown} \
             DIRECTORY`, then export that directory"
        );
    }
    let (directory, _lock, listed) =
        directory::open_existing(path, "the data directory of a database")?;
    opening::check_presence(&directory, &listed, false)?;
    let new = new_name(file);
    let mut counted = Counted { file: create(file, &new)?, bytes: 0, report };
    let exported: anyhow::Result<Done> = (|| {
        let opened = opening::open_listed(&directory, &listed, &config(), now)?;
        let (stores, devices) = parts(opened);
        let entries = shards::export(&mut offline(stores, &devices), &mut counted, now)?;
        counted.file.sync_all()?;
        fs::rename(&new, file)?;
        sync_name(file)?;
        Ok(Done { entries, bytes: counted.bytes })
    })();
    if exported.is_err() {
        let _ = fs::remove_file(&new);
    }
    exported.with_context(|| format!("cannot export {shown} to {}", file.display()))
}

/// Name of the file that becomes `file` once it is complete and durable: an incomplete snapshot
/// must not be taken for one.
fn new_name(file: &Path) -> PathBuf {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

/// Creates the file `new`, which only its owner may read, unless it or `file` exists.
fn create(file: &Path, new: &Path) -> anyhow::Result<File> {
    if file.symlink_metadata().is_ok() {
        bail!("{} exists; name a file that does not exist", file.display());
    }
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new);
    let shown = new.display();
    created.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            anyhow!("{shown} exists; remove it unless another export is writing it")
        }
        _ => anyhow!("cannot create {shown}: {}", why(&error)),
    })
}

/// Stores all entries of an RDB file that have not expired in a new database in `target`. Calls
/// `report` with the number of bytes read so far.
///
/// # Errors
/// The file is no RDB file, is damaged, or has something other than strings; `target` is not empty,
/// or cannot be written. It is no database then.
pub fn import(
    file: &Path,
    target: &Path,
    now: Duration,
    report: impl FnMut(u64),
) -> anyhow::Result<Done> {
    let (read, shown) = (File::open(file), file.display());
    let read = read.map_err(|error| anyhow!("cannot open {shown}: {}", why(&error)))?;
    let mut counted = Counted { file: read, bytes: 0, report };
    let (directory, _lock) = directory::open_empty(target)?;
    let names: Vec<String> = (0..SHARDS_NEW).map(shard_name).collect();
    let imported: anyhow::Result<Done> = (|| {
        for name in &names {
            FileDevice::open_in(&directory, name)?;
        }
        let opened = opening::open_listed(&directory, &[None; SHARDS_NEW], &config(), now)?;
        let listing = opening::identities(&opened);
        let (stores, devices) = parts(opened);
        let entries = shards::import(&mut offline(stores, &devices), &mut counted, now)?;
        // Last: without the list of shards, the directory is not served.
        directory::list(&directory, &listing)?;
        Ok(Done { entries, bytes: counted.bytes })
    })();
    if imported.is_err() {
        for name in &names {
            let _ = fs::remove_dir_all(target.join(name));
        }
    }
    imported.with_context(|| format!("cannot import {shown} to {}", target.display()))
}

fn config() -> Config {
    Config {
        memory_bytes: MEMORY_BYTES,
        // Closing a shard makes all of it durable.
        sync: Sync::Never,
        warming: Warming::Off,
        ..Config::default()
    }
}

fn parts(opened: Vec<Opened>) -> (Vec<Elastic>, Vec<Arc<FileDevice>>) {
    opened.into_iter().map(|opened| (opened.store, opened.device)).unzip()
}

fn offline(stores: Vec<Elastic>, devices: &[Arc<FileDevice>]) -> Vec<Offline<'_, FileDevice>> {
    let pair = |(store, device)| Offline { store, device };
    stores.into_iter().zip(devices.iter().map(|device| &**device)).map(pair).collect()
}

/// A file, the number of its bytes that were read or written, and what is told of it.
struct Counted<F, R> {
    file: F,
    bytes: u64,
    report: R,
}

impl<F, R: FnMut(u64)> Counted<F, R> {
    fn count(&mut self, bytes: usize) -> usize {
        self.bytes += bytes as u64;
        (self.report)(self.bytes);
        bytes
    }
}

impl<F: Read, R: FnMut(u64)> Read for Counted<F, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        Ok(self.count(bytes))
    }
}

impl<F: Write, R: FnMut(u64)> Write for Counted<F, R> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let bytes = self.file.write(buffer)?;
        Ok(self.count(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
