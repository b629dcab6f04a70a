//! The file that lists the shards of a database, each with the identity of its store
//! (`docs/formats/elastic-store.md`).

use std::collections::BTreeMap;

/// Maximum number of shards; a larger number is invalid.
pub(super) const SHARDS_MAX: usize = 256;
const TITLE: &str = "enroute-db ";
const VERSION: u64 = 2;

/// Shards listed in the directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Listing {
    /// No shards: the directory is empty.
    Empty,
    /// Their number only: they are being created, or were created by an earlier version.
    Count(usize),
    /// Each shard with its identity.
    Shards(Vec<u32>),
}

impl Listing {
    /// The content of the file.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Count(count) => format!("{count}\n"),
            Self::Shards(shards) => {
                let mut text = format!("{TITLE}{VERSION}\n");
                for (index, identity) in shards.iter().enumerate() {
                    text += &format!("{} {identity:08x}\n", shard_name(index));
                }
                let checksum = crc32c::crc32c(text.as_bytes());
                text + &format!("checksum {checksum:08x}\n")
            }
        }
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_count = |count: &usize| (1..=SHARDS_MAX).contains(count);
        let Some(rest) = text.strip_prefix(TITLE) else {
            let count = text.trim().parse().ok().filter(is_count);
            return count.map(Self::Count).ok_or_else(|| {
                format!("found {text:?}, expected a list of shards; restore the file from a backup")
            });
        };
        let version = rest.lines().next().unwrap_or_default();
        if version.parse().ok() != Some(VERSION) {
            return Err(format!(
                "version {version:?}, expected {VERSION}; start the version of enroute that wrote it"
            ));
        }
        let damaged =
            || format!("found {text:?}, which is damaged; restore the file from a backup");
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
        Ok(Self::Shards(shards.into_values().collect()))
    }
}

/// The name of a shard's directory.
pub fn shard_name(index: usize) -> String {
    format!("shard-{index:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_back_and_a_changed_byte_is_found() {
        let listing = Listing::Shards(vec![7, 0xdead_beef, 0]);
        let written = listing.text();
        assert_eq!(Listing::parse(&written), Ok(listing));
        assert_eq!(Listing::parse("4\n"), Ok(Listing::Count(4)));
        for at in 0..written.len() {
            let mut bytes = written.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII");
            let found = Listing::parse(&changed);
            // The case of a digit, or what follows the last, changes nothing.
            assert!(found.is_err() || found == Listing::parse(&written), "{changed:?}");
        }
        let newer = written.replace("enroute-db 2", "enroute-db 3");
        let error = Listing::parse(&newer).expect_err("a newer version");
        assert!(error.contains("version \"3\", expected 2"), "{error}");
    }
}
