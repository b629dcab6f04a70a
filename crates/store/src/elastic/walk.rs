//! Walks over the keys: scans and random draws, in the order of hashes.
//!
//! Hashes do not change as the table grows or shrinks, so a cursor is the next hash, and a scan
//! returns every key that exists from its beginning to its end. Damaged data does not stop a walk:
//! it is reported like all damage, and skipped.

use std::time::Duration;

use super::record::{Body, Expiry, NEVER, Record};
use super::staged_key::StagedKey;
use super::staging::State;
use super::table::{HASH_BITS, Slot};
use super::{Elastic, RandomKey, Scan, Ticket};

/// Maximum number of keys of one step of a scan, because each may have to be read from disk.
const SCAN_MAX: usize = 512;

/// State of the key of a slot.
enum SlotKey {
    Known(Box<[u8]>, Expiry),
    Pending(Ticket),
    /// The disk does not give it.
    Lost,
}

/// A page of the storage table.
enum Page {
    Here(u32),
    Pending(Ticket),
    /// The disk does not give it.
    Lost,
}

impl Elastic {
    /// Returns about `count` keys (512 at most) from `cursor` on, in the order of their hashes;
    /// begin with 0. Every key present from the first call to the last is returned, and none twice
    /// unless it was removed and stored again. A key is returned even if its value is damaged, but
    /// records whose names cannot be read are skipped and counted.
    pub fn scan(&mut self, cursor: u64, count: usize, now: Duration) -> Scan {
        let count = count.clamp(1, SCAN_MAX);
        let (mut keys, mut pending) = (Vec::new(), Vec::new());
        let (mut from, mut seen, mut passed_over) = (cursor, 0, 0);
        let cursor = loop {
            if from >= 1 << HASH_BITS {
                break 0;
            }
            let entries = match self.page(from) {
                Page::Here(page) => self.table.page_entries(page, from),
                Page::Pending(ticket) => {
                    pending.push(ticket);
                    break from;
                }
                Page::Lost => {
                    passed_over += 1;
                    Vec::new()
                }
            };
            // Keys of one hash stay together, because a cursor cannot separate them.
            let end = (count - seen..entries.len())
                .find(|&at| at > 0 && entries[at].0 != entries[at - 1].0)
                .unwrap_or(entries.len());
            for &(hash, slot) in &entries[..end] {
                match self.slot_key(hash, slot) {
                    SlotKey::Known(key, over_at) if !over_at.is_over(now) => keys.push(key),
                    SlotKey::Known(..) => {}
                    SlotKey::Pending(ticket) => pending.push(ticket),
                    SlotKey::Lost => passed_over += 1,
                }
            }
            seen += end;
            if let Some(&(hash, _)) = entries.get(end) {
                break hash;
            }
            match self.table.next_page_hash(from) {
                Some(next) => from = next,
                None => break 0,
            }
            if seen >= count {
                break from;
            }
        };
        if pending.is_empty() {
            Scan::Ready { cursor, keys, passed_over }
        } else {
            Scan::Pending(pending)
        }
    }

    /// A key selected by `random`, approximately uniformly; it may have expired.
    pub fn random_key(&mut self, random: u64, _now: Duration) -> RandomKey {
        if self.is_empty() {
            return RandomKey::Ready(None);
        }
        let mut from = random >> (64 - HASH_BITS);
        loop {
            let page = match self.page(from) {
                Page::Here(page) => page,
                Page::Pending(ticket) => return RandomKey::Pending(ticket),
                Page::Lost => return RandomKey::Ready(None),
            };
            let entries = self.table.page_entries(page, 0);
            if !entries.is_empty() {
                let at = ((random & 0xff_ffff) as usize * entries.len()) >> 24;
                let (hash, slot) = entries[at];
                return match self.slot_key(hash, slot) {
                    SlotKey::Known(key, _) => RandomKey::Ready(Some(key)),
                    SlotKey::Pending(ticket) => RandomKey::Pending(ticket),
                    SlotKey::Lost => RandomKey::Ready(None),
                };
            }
            from = self.table.next_page_hash(from).unwrap_or(0);
        }
    }

    /// The page of the storage table that a hash belongs to.
    fn page(&mut self, hash: u64) -> Page {
        let page = self.table.page_of(hash);
        if self.table.is_resident(page) {
            return Page::Here(page);
        }
        if self.paging.missing(page).is_some() {
            return Page::Lost;
        }
        let staged_key = StagedKey::Page(page);
        match self.staging.of(&staged_key) {
            Some(State::Failed { .. }) => Page::Lost,
            _ => Page::Pending(self.stage(&staged_key, hash)),
        }
    }

    fn slot_key(&mut self, hash: u64, slot: Slot) -> SlotKey {
        if let Some(bytes) = self.log.buffered(slot.location) {
            let record = Record::parse(bytes).expect("a buffered record is whole");
            return SlotKey::Known(record.key.into(), record.body.expires_at);
        }
        let is_only = self.table.candidates(hash).len() == 1;
        if is_only && let Some(known) = self.key_in_memory(hash) {
            return known;
        }
        let address = self.log.segments.address(slot.location);
        let staged_key = StagedKey::Slot { hash, location: slot.location, address };
        match self.staging.of(&staged_key) {
            Some(State::Found { key, over_at }) => SlotKey::Known(key.clone(), *over_at),
            Some(State::Failed { .. }) => SlotKey::Lost,
            Some(State::Absent) => {
                // The page was not in memory when it was looked up.
                self.restart(&staged_key);
                SlotKey::Pending(self.stage(&staged_key, hash))
            }
            _ => SlotKey::Pending(self.stage(&staged_key, hash)),
        }
    }

    fn key_in_memory(&self, hash: u64) -> Option<SlotKey> {
        let key = self.memory.key_where(hash, |key| self.hash(key) == hash)?;
        let peek = self.memory.peek(hash, key, NEVER)?;
        Some(SlotKey::Known(key.into(), Body::read(peek.value).expires_at))
    }
}
