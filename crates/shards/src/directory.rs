//! The directory of a database: its lock and its list of shards.
//!
//! Its file `LOCK` keeps a second database out. Its file `shards` lists the shards; see
//! docs/formats/elastic-store.md.

use std::path::Path;

use anyhow::{anyhow, bail};
use platform::{
    directory::{Directory, why},
    lock::{Lock, Refused},
};
use store::elastic::Listing;

/// Longest file `shards`, in bytes.
const LISTING_BYTES_MAX: u64 = 64 << 10;
const LISTING: &str = "shards";
const LISTING_NEW: &str = "shards.new";
const LOCK: &str = "LOCK";

/// Opens the directory, making it if it is missing, and keeps others out of it while the lock is
/// held.
///
/// # Errors
/// It cannot be made or locked, or another process uses it.
pub fn open(path: &Path) -> anyhow::Result<(Directory, Lock)> {
    let directory = Directory::open(path)?;
    let shown = path.display();
    match Lock::take(&path.join(LOCK), &format!("enroute db --dir {shown}")) {
        Ok(lock) => Ok((directory, lock)),
        Err(Refused::Held(holder)) => {
            bail!("{shown} is in use by {holder}; stop that process, or use another --dir")
        }
        Err(Refused::Failed(error)) => bail!("cannot lock {shown}/{LOCK}: {}", why(&error)),
    }
}

/// The expected shards.
///
/// # Errors
/// The list cannot be read, or is missing in a directory that is not empty.
pub(crate) fn listing(directory: &Directory) -> anyhow::Result<Listing> {
    let shown = directory.path().display();
    if let Some(text) = directory.read(LISTING, LISTING_BYTES_MAX)? {
        return Listing::parse(&text).map_err(|wrong| anyhow!("{shown}/{LISTING}: {wrong}"));
    }
    if let Some(foreign) = directory.has_besides(&[LOCK, LISTING_NEW])? {
        bail!(
            "{shown} contains {foreign} but no file `{LISTING}`: expected an empty directory or one that \
             enroute created; use another --dir"
        );
    }
    Ok(Listing::Empty)
}

/// Makes or opens a directory that contains nothing yet; keeps others out of it while the lock is
/// held.
///
/// # Errors
/// It is not empty, or cannot be made or locked.
pub(crate) fn open_empty(path: &Path) -> anyhow::Result<(Directory, Lock)> {
    let (directory, lock) = open(path)?;
    if let Some(found) = directory.has_besides(&[LOCK])? {
        bail!(
            "{} is not empty: it contains {found}; expected an empty directory, or one that does \
             not exist",
            path.display()
        );
    }
    directory.guard(true)?;
    Ok((directory, lock))
}

/// Opens the directory of a database that no process serves, and keeps others out of it while the
/// lock is held; returns the identity of each shard, as far as it is listed. `expected` is what the
/// directory should be, for the error.
///
/// # Errors
/// It is no database, or another process uses it.
pub(crate) fn open_existing(
    path: &Path,
    expected: &str,
) -> anyhow::Result<(Directory, Lock, Vec<Option<u32>>)> {
    let shown = path.display();
    if !path.is_dir() {
        bail!("{shown} does not exist; expected {expected}");
    }
    let (directory, lock) = open(path)?;
    let listed = match listing(&directory)? {
        Listing::Shards(shards) => shards.into_iter().map(Some).collect(),
        Listing::Count(count) => vec![None; count],
        Listing::Empty => bail!("{shown} is empty; expected {expected}"),
    };
    Ok((directory, lock, listed))
}

/// Replaces the list atomically.
pub(crate) fn list(directory: &Directory, listing: &Listing) -> anyhow::Result<()> {
    directory.replace(LISTING, LISTING_NEW, &listing.text())
}
