//! Entries that another storage failed to drop.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;

/// Maximum number of entries; more may be served while they are fresh.
const OWED_MAX: usize = 1 << 16;

/// Hashes of the keys of entries that are still to be dropped.
#[derive(Debug, Default)]
pub struct Owed {
    keys: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl Owed {
    /// Whether the entry of `key` is to be dropped before it is used.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.keys.lock().contains(&self.hasher.hash_one(key))
    }

    /// Records whether the entry of `key` was dropped.
    pub fn settle(&self, key: &[u8], dropped: bool) {
        let (hash, mut keys) = (self.hasher.hash_one(key), self.keys.lock());
        if dropped {
            keys.remove(&hash);
        } else if keys.len() < OWED_MAX {
            keys.insert(hash);
        }
    }
}
