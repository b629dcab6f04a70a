//! Where the record of a key is, as far as memory can tell.

use super::entries::NEVER;
use super::record::Record as LogRecord;
use super::staged::State;
use super::table::{Location, Slot};
use super::{Elastic, Fresh};
use crate::item;
use crate::mapping::PAGE_BYTES;

/// Where the record of a key is, as far as memory can tell.
pub(super) enum Located {
    At(Slot),
    Nowhere,
    /// Only the disk knows.
    Unknown,
}

impl Elastic {
    /// Where the record of `key` is, without asking the disk.
    pub(super) fn locate(&mut self, hash: u64, key: &[u8]) -> Located {
        if let Some(known) = self.known.get(key) {
            return Located::At(known.slot);
        }
        let page = self.table.page_of(hash);
        if !self.table.is_resident(page) {
            return Located::Unknown;
        }
        let candidates = self.table.candidates(hash);
        if candidates.is_empty() {
            return Located::Nowhere;
        }
        let at = |location: Location| {
            candidates
                .iter()
                .find(|slot| slot.location == location)
                .map_or(Located::Unknown, |slot| Located::At(*slot))
        };
        if let Some(location) = self.fresh_location(hash, key) {
            return at(location);
        }
        if self.gone.iter().any(|gone| **gone == *key) {
            return Located::Nowhere;
        }
        if let [only] = candidates[..]
            && self.memory.peek(hash, key, NEVER).is_some()
        {
            return Located::At(only);
        }
        match self.staged_state(key) {
            Some(State::Body { location, .. }) => return at(*location),
            // With several records of this hash, which one is damaged stays open.
            Some(State::Failed { location: Some(location), .. }) if candidates.len() == 1 => {
                return at(*location);
            }
            Some(State::Absent) => return Located::Nowhere,
            _ => {}
        }
        let mut unknown = false;
        for slot in &candidates {
            match self.buffered_record(slot.location) {
                Some(record) if record.key == key => return Located::At(*slot),
                Some(_) => {}
                None => unknown = true,
            }
        }
        if unknown { Located::Unknown } else { Located::Nowhere }
    }

    /// True if loading `key`, as for a command that `writes` it, will not ask the disk. Not every time
    /// when it would not this is known.
    pub fn is_at_hand(&mut self, key: &[u8], writes: bool) -> bool {
        if let Some(state) = self.staged_state(key) {
            return state.is_known();
        }
        let hash = self.origin.hasher.hash(key);
        let is_in_memory = self.memory.peek(hash, key, NEVER).is_some();
        match self.locate(hash, key) {
            Located::Nowhere => true,
            Located::At(slot) => is_in_memory || self.log.buffered(slot.location).is_some(),
            Located::Unknown => is_in_memory && !writes,
        }
    }

    /// About what reading an entry from disk takes, in bytes.
    pub fn bytes_on_disk(&mut self, key: &[u8]) -> usize {
        let hash = self.origin.hasher.hash(key);
        if !self.table.is_resident(self.table.page_of(hash)) {
            // Its page tells; entries that small make a table that large.
            return PAGE_BYTES;
        }
        self.table.candidates(hash).iter().map(|slot| slot.class.bytes()).sum()
    }

    pub(super) fn buffered_record(&self, location: Location) -> Option<LogRecord<'_>> {
        LogRecord::parse(self.log.buffered(location)?).ok()
    }

    pub(super) fn fresh_location(&self, hash: u64, key: &[u8]) -> Option<Location> {
        if self.fresh.is_empty() {
            return None;
        }
        let is_it = |fresh: &Fresh| {
            fresh.hash == hash
                && self.buffered_record(fresh.location).is_some_and(|record| record.key == key)
        };
        self.fresh.find(hash, is_it).map(|fresh| fresh.location)
    }

    pub(super) fn note_fresh(&mut self, hash: u64, key: &[u8], location: Location) {
        match self.fresh_location(hash, key) {
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
}

/// Where the entry loaded last is, if memory holds it, so that writing it need not find out again.
#[derive(Debug, Default)]
pub(super) struct Known {
    key: Vec<u8>,
    places: Option<Places>,
}

/// The two places of an entry, and the hash of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) hash: u64,
    /// In the storage table.
    pub(super) slot: Slot,
    /// In the memory table.
    pub(super) memory: item::Location,
}

impl Known {
    pub(super) fn set(&mut self, key: &[u8], places: Places) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.places = Some(places);
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Places> {
        self.places.filter(|_| self.key == key)
    }

    /// One of the tables changes, or may.
    pub(super) fn forget(&mut self) {
        self.places = None;
    }
}
