//! The directory of a database: its lock and its list of shards.
//!
//! It is held open from the start to the end, and everything in it is opened relative to that: if
//! the directory is renamed, the database continues to use it. Its file `LOCK` keeps a second
//! database out. Its file `shards` lists the shards; see docs/formats/elastic-store.md.

use std::{
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

use platform::lock::{Lock, Refused};
use store::elastic::Listing;

/// Longest file `shards`, in bytes.
const LISTING_BYTES_MAX: u64 = 64 << 10;
const LISTING: &str = "shards";
const LISTING_NEW: &str = "shards.new";
const LOCK: &str = "LOCK";

/// The locked directory.
pub(super) struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
    _lock: Lock,
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
                Listing::parse(&text).map_err(|wrong| anyhow!("{}: {wrong}", file.display()))
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
            file.write_all(listing.text().as_bytes())?;
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
