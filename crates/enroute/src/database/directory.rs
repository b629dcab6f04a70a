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
pub(super) fn open(path: &Path) -> anyhow::Result<(Directory, Lock)> {
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
pub(super) fn listing(directory: &Directory) -> anyhow::Result<Listing> {
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

/// Replaces the list atomically.
pub(super) fn list(directory: &Directory, listing: &Listing) -> anyhow::Result<()> {
    directory.replace(LISTING, LISTING_NEW, &listing.text())
}
