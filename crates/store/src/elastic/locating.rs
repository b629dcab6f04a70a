//! Location of the record of a key, as far as it is known in memory.

use super::Elastic;
use super::record::NEVER;
use super::staging::State;
use super::table::{Location, Slot};
use crate::mapping::PAGE_BYTES;

/// Location of the record of a key, as far as it is known without reading from disk.
pub(super) enum Located {
    At(Slot),
    Nowhere,
    /// Unknown without reading from disk.
    Unknown,
}

impl Elastic {
    /// Returns the location of the record of `key`, without reading from disk.
    pub(super) fn locate(&mut self, hash: u64, key: &[u8]) -> Located {
        if let Some(known) = self.recent.known(key) {
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
        if let Some(location) = self.recent.location(&self.log, hash, key) {
            return at(location);
        }
        if self.recent.is_gone(key) {
            return Located::Nowhere;
        }
        if let [only] = candidates[..]
            && self.memory.peek(hash, key, NEVER).is_some()
        {
            return Located::At(only);
        }
        match self.staging.of_key(key) {
            Some(State::Body { location, .. }) => return at(*location),
            // If several records have this hash, it is unknown which of them is damaged.
            Some(State::Failed { location: Some(location), .. }) if candidates.len() == 1 => {
                return at(*location);
            }
            Some(State::Absent) => return Located::Nowhere,
            _ => {}
        }
        let mut unknown = false;
        for slot in &candidates {
            match self.log.buffered_record(slot.location) {
                Some(record) if record.key == key => return Located::At(*slot),
                Some(_) => {}
                None => unknown = true,
            }
        }
        if unknown { Located::Unknown } else { Located::Nowhere }
    }

    /// True if loading `key` for a command (one that `writes` it, if set) needs no disk read. May
    /// be false for some keys that need none.
    pub fn is_at_hand(&mut self, key: &[u8], writes: bool) -> bool {
        if let Some(state) = self.staging.of_key(key) {
            return state.is_known();
        }
        let hash = self.hash(key);
        let is_in_memory = self.memory.peek(hash, key, NEVER).is_some();
        match self.locate(hash, key) {
            Located::Nowhere => true,
            Located::At(slot) => is_in_memory || self.log.buffered(slot.location).is_some(),
            Located::Unknown => is_in_memory && !writes,
        }
    }

    /// Approximate number of bytes that are read from disk for an entry.
    pub fn bytes_on_disk(&mut self, key: &[u8]) -> usize {
        let hash = self.hash(key);
        if !self.table.is_resident(self.table.page_of(hash)) {
            // The page of the entry must be read first; entries of this size make a table of that
            // size.
            return PAGE_BYTES;
        }
        self.table.candidates(hash).iter().map(|slot| slot.class.bytes()).sum()
    }
}
