//! The directory of a database: its lock and its list of shards.
//!
//! It is held open from the start to the end, and everything in it is opened relative to that: if
//! the directory is renamed, the database continues to use it. Its file `LOCK` keeps a second
//! database out. Its file `shards` lists the shards; see docs/formats/elastic-store.md.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, fsync, openat, renameat, statat},
    io::Errno,
};

use crate::lock::{Lock, Refused};

/// Maximum number of shards; a larger number is invalid.
const SHARDS_MAX: usize = 256;
/// Longest file `shards`, in bytes.
const LISTING_BYTES_MAX: u64 = 64 << 10;
const LISTING: &str = "shards";
const LISTING_NEW: &str = "shards.new";
const LOCK: &str = "LOCK";
const TITLE: &str = "enroute-db ";
const VERSION: u64 = 2;

/// The locked directory.
pub(super) struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
    _lock: Lock,
}

/// Shards listed in the directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// None: the directory is empty.
    Empty,
    /// Their number only: they are being created, or were created by an earlier version.
    Count(usize),
    /// Each shard with its identity.
    Shards(Vec<u32>),
}

impl Directory {
    /// Opens the directory, making it if it is missing, and keeps others out of it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
            anyhow!("cannot create the data directory {shown}: {}", why(&error))
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| anyhow!("cannot open {shown}: {}", why(&error.into())))?;
        let command = format!("enroute db --dir {shown}");
        let lock = match Lock::take(&path.join(LOCK), &command) {
            Ok(lock) => lock,
            Err(Refused::Held(holder)) => {
                bail!("{shown} is in use by {holder}; stop that process, or use another --dir")
            }
            Err(Refused::Failed(error)) => bail!("cannot lock {shown}/{LOCK}: {}", why(&error)),
        };
        Ok(Self { path: path.to_owned(), descriptor, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn has(&self, name: &str) -> bool {
        statat(&self.descriptor, name, AtFlags::empty()).is_ok()
    }

    /// The expected shards.
    pub(super) fn listing(&self) -> anyhow::Result<Listing> {
        let file = self.path.join(LISTING);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match openat(&self.descriptor, LISTING, flags, Mode::empty()) {
            Ok(opened) => {
                let mut text = String::new();
                File::from(opened)
                    .take(LISTING_BYTES_MAX)
                    .read_to_string(&mut text)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                parse(&text).map_err(|wrong| anyhow!("{}: {wrong}", file.display()))
            }
            Err(Errno::NOENT) => {
                for entry in fs::read_dir(&self.path)? {
                    let name = entry?.file_name();
                    if name != LOCK && name != LISTING_NEW {
                        bail!(
                            "{} contains {} but no file `{LISTING}`: expected an empty directory or one that \
                             enroute created; use another --dir",
                            self.path.display(),
                            name.display()
                        );
                    }
                }
                Ok(Listing::Empty)
            }
            Err(error) => bail!("cannot read {}: {}", file.display(), why(&error.into())),
        }
    }

    /// Replaces the list atomically.
    pub(super) fn list(&self, listing: &Listing) -> anyhow::Result<()> {
        let write = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
            let file = openat(&self.descriptor, LISTING_NEW, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            file.write_all(text(listing).as_bytes())?;
            file.sync_all()?;
            renameat(&self.descriptor, LISTING_NEW, &self.descriptor, LISTING)?;
            Ok(fsync(&self.descriptor)?)
        };
        write().map_err(|error: std::io::Error| {
            anyhow!("cannot write {}: {}", self.path.join(LISTING).display(), why(&error))
        })
    }

    /// Sets the mode of a new directory to owner only; warns if an existing one is accessible to
    /// others.
    pub(super) fn guard(&self, is_new: bool) -> anyhow::Result<()> {
        let mode = fstat(&self.descriptor)?.st_mode & 0o7777;
        if mode & 0o077 == 0 || (is_new && fchmod(&self.descriptor, Mode::RWXU).is_ok()) {
            return Ok(());
        }
        let shown = self.path.display();
        tracing::warn!(
            "{shown} has mode {mode:04o}: other users of this machine may read the data; run \
             `chmod -R go= {shown}`"
        );
        Ok(())
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The system's error, and what to do about it.
fn why(error: &std::io::Error) -> String {
    let next = match error.kind() {
        ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            format!("the process runs as user {user}; run it as the owner of the directory")
        }
        ErrorKind::ReadOnlyFilesystem => {
            "mount the file system read-write, or use another --dir".to_owned()
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on the disk".to_owned(),
        _ => return error.to_string(),
    };
    format!("{error}; {next}")
}

/// The name of a shard's directory.
pub(super) fn shard_name(index: usize) -> String {
    format!("shard-{index:03}")
}

fn text(listing: &Listing) -> String {
    match listing {
        Listing::Empty => String::new(),
        Listing::Count(count) => format!("{count}\n"),
        Listing::Shards(shards) => {
            let mut text = format!("{TITLE}{VERSION}\n");
            for (index, identity) in shards.iter().enumerate() {
                text += &format!("{} {identity:08x}\n", shard_name(index));
            }
            let checksum = crc32c::crc32c(text.as_bytes());
            text + &format!("checksum {checksum:08x}\n")
        }
    }
}

fn parse(text: &str) -> Result<Listing, String> {
    let is_count = |count: &usize| (1..=SHARDS_MAX).contains(count);
    let Some(rest) = text.strip_prefix(TITLE) else {
        let count = text.trim().parse().ok().filter(is_count);
        return count.map(Listing::Count).ok_or_else(|| {
            format!("found {text:?}, expected a list of shards; restore the file from a backup")
        });
    };
    let version = rest.lines().next().unwrap_or_default();
    if version.parse().ok() != Some(VERSION) {
        return Err(format!(
            "version {version:?}, expected {VERSION}; start the version of enroute that wrote it"
        ));
    }
    let damaged = || format!("found {text:?}, which is damaged; restore the file from a backup");
    let (listed, checksum) = text.split_once("checksum ").ok_or_else(damaged)?;
    if u32::from_str_radix(checksum.trim_end(), 16) != Ok(crc32c::crc32c(listed.as_bytes())) {
        return Err(damaged());
    }
    let mut shards = BTreeMap::new();
    for line in listed.lines().skip(1) {
        let (name, identity) = line.split_once(' ').ok_or_else(damaged)?;
        shards.insert(name, u32::from_str_radix(identity, 16).map_err(|_| damaged())?);
    }
    let in_order = shards.keys().enumerate().all(|(index, name)| *name == shard_name(index));
    if !in_order || !is_count(&shards.len()) {
        return Err(damaged());
    }
    Ok(Listing::Shards(shards.into_values().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_back_and_a_changed_byte_is_found() {
        let listing = Listing::Shards(vec![7, 0xdead_beef, 0]);
        let written = text(&listing);
        assert_eq!(parse(&written), Ok(listing));
        assert_eq!(parse("4\n"), Ok(Listing::Count(4)));
        for at in 0..written.len() {
            let mut bytes = written.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII");
            let found = parse(&changed);
            // The case of a digit, or what follows the last, changes nothing.
            assert!(found.is_err() || found == parse(&written), "{changed:?}");
        }
        let newer = written.replace("enroute-db 2", "enroute-db 3");
        let error = parse(&newer).expect_err("a newer version");
        assert!(error.contains("version \"3\", expected 2"), "{error}");
    }
}
