//! Changes since the last command batch.

use hashbrown::HashTable;

use super::log::Log;
use super::record::{NEVER, Record as LogRecord};
use super::table::{Location, Slot};
use crate::item;
use crate::memory::Memory;

/// Number of cache lines that are prefetched before the first is used.
const FETCHED_AHEAD: usize = 16;

/// A record appended since the last command batch, not yet in the memory table.
#[derive(Debug, Clone, Copy)]
struct Fresh {
    hash: u64,
    location: Location,
}

/// Owns the state that is valid only until the end of a command batch: the records that are in a
/// buffer of the log and not yet in the memory table, the removed keys, and the place of the last
/// loaded entry.
///
/// Invariants: the record of every location here is in a buffer of the log, so [`Recent::settle`]
/// runs before the log may release a buffer; `known` is valid only while neither table has changed.
#[derive(Debug, Default)]
pub(super) struct Recent {
    fresh: HashTable<Fresh>,
    /// Keys removed since the last command batch whose hash another key also has.
    gone: Vec<Box<[u8]>>,
    known: Known,
}

impl Recent {
    /// True if all writes are in the memory table.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty()
    }

    /// True if a key was removed whose hash another key also has.
    #[inline]
    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// True if `key` was removed and another key has its hash.
    pub(super) fn is_gone(&self, key: &[u8]) -> bool {
        self.gone.iter().any(|gone| **gone == *key)
    }

    /// Notes that `key` was removed and another key has the same hash. This batch knows that the
    /// remaining record is not of `key`; later only the disk does.
    pub(super) fn note_gone(&mut self, key: &[u8]) {
        self.gone.push(key.into());
    }

    /// The location of the record of `key`, if it was appended since the last batch.
    #[inline]
    pub(super) fn location(&self, log: &Log, hash: u64, key: &[u8]) -> Option<Location> {
        if self.fresh.is_empty() {
            return None;
        }
        let is_it = |fresh: &Fresh| {
            fresh.hash == hash
                && log.buffered_record(fresh.location).is_some_and(|record| record.key == key)
        };
        self.fresh.find(hash, is_it).map(|fresh| fresh.location)
    }

    /// The record of `key` was appended at `location` of the log.
    pub(super) fn note(&mut self, log: &Log, hash: u64, key: &[u8], location: Location) {
        match self.location(log, hash, key) {
            Some(old) => {
                if let Some(fresh) = self.fresh.find_mut(hash, |fresh| fresh.location == old) {
                    fresh.location = location;
                }
            }
            None => {
                self.fresh.insert_unique(hash, Fresh { hash, location }, |fresh| fresh.hash);
            }
        }
    }

    /// Notes that `key` was removed.
    pub(super) fn forget(&mut self, log: &Log, hash: u64, key: &[u8]) {
        if let Some(location) = self.location(log, hash, key) {
            let entry = self.fresh.find_entry(hash, |fresh| fresh.location == location);
            if let Ok(entry) = entry {
                entry.remove();
            }
        }
    }

    /// The record at `location` is dead.
    pub(super) fn forget_location(&mut self, location: Location) {
        self.fresh.retain(|fresh| fresh.location != location);
    }

    /// Notes that everything was removed.
    pub(super) fn clear(&mut self) {
        self.known.forget();
        self.fresh.clear();
        self.gone.clear();
    }

    /// Moves the writes of the batch into the memory table. The log may release its buffers after
    /// that.
    pub(super) fn settle(&mut self, log: &Log, memory: &mut Memory) {
        self.known.forget();
        self.gone.clear();
        let fresh: Vec<Fresh> = self.fresh.drain().collect();
        for fresh in fresh.chunks(FETCHED_AHEAD) {
            fresh.iter().for_each(|fresh| memory.prefetch(fresh.hash));
            fresh.iter().for_each(|fresh| memory.prefetch_item(fresh.hash));
            for &Fresh { hash, location } in fresh {
                let Some(bytes) = log.buffered(location) else { continue };
                let record = LogRecord::parse(bytes).expect("a buffered record is whole");
                // An entry refused for its size is served from disk.
                let body = &bytes[record.body_range()];
                let _ = memory.insert(hash, record.key, body, None, NEVER);
            }
        }
    }

    /// Returns the places of the entry of `key` in both tables, if it was the last one loaded.
    #[inline]
    pub(super) fn known(&self, key: &[u8]) -> Option<Places> {
        self.known.places.filter(|_| self.known.key == key)
    }

    #[inline]
    pub(super) fn set_known(&mut self, key: &[u8], places: Places) {
        self.known.key.clear();
        self.known.key.extend_from_slice(key);
        self.known.places = Some(places);
    }

    /// Call this before one of the tables changes.
    #[inline]
    pub(super) fn forget_known(&mut self) {
        self.known.forget();
    }
}

/// Places of the last loaded entry, if memory holds it, so that a write to it needs no second
/// lookup.
#[derive(Debug, Default)]
struct Known {
    key: Vec<u8>,
    places: Option<Places>,
}

impl Known {
    #[inline]
    fn forget(&mut self) {
        self.places = None;
    }
}

/// The two places of an entry, and the hash of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) hash: u64,
    /// Slot in the storage table.
    pub(super) slot: Slot,
    /// Location in the memory table.
    pub(super) memory: item::Location,
}
