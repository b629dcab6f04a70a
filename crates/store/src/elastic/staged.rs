//! Entries and table pages being read from disk, for which commands wait.
//!
//! A staged entry stays readable until its last ticket is released, whatever memory has room for;
//! so a command whose keys do not fit memory together still runs.

use std::io;
use std::ops::Range;

use super::entries::{NEVER, body_bytes};
use super::outbox::Purpose;
use super::record::{Address, Body, Expiry, Record};
use super::table::{Location, Slot};
use super::{Elastic, Error, Ticket};
use crate::device::FileName;

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum StagedKey {
    /// The entry of a key.
    Key(Box<[u8]>),
    /// The key of a record, as for a scan. Its address tells it from another at the same location
    /// later, which may be of the same hash.
    Slot { hash: u64, location: Location, address: Address },
    /// A page of the storage table.
    Page(u32),
}

pub(super) type Held = StagedKey;

/// A body inside the bytes it was read with.
#[derive(Debug)]
pub(super) struct BodyBytes {
    bytes: Vec<u8>,
    range: Range<usize>,
}

impl BodyBytes {
    pub(super) fn body(&self) -> Body<'_> {
        Body::read(&self.bytes[self.range.clone()])
    }

    fn of(body: Body<'_>) -> Self {
        let bytes = body_bytes(body);
        Self { range: 0..bytes.len(), bytes }
    }
}

#[derive(Debug)]
pub(super) enum State {
    /// The disk is being asked; these records were not it.
    Reading { tried: Vec<Address> },
    /// The entry, and which record it is.
    Body { bytes: BodyBytes, location: Location },
    /// The key of a record.
    Found { key: Box<[u8]>, over_at: Expiry },
    /// There is none; or the page is there.
    Absent,
    /// The disk failed. If the record of the key is damaged for good, this is the one to replace.
    Failed { error: Error, location: Option<Location> },
}

impl State {
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::Reading { .. })
    }
}

#[derive(Debug)]
pub(super) struct Staged {
    hash: u64,
    pub(super) state: State,
    waiting: Vec<Ticket>,
    holders: usize,
    pinned: Option<u32>,
}

impl Staged {
    /// The table is begun anew: its pins are void.
    pub(super) fn unpinned(&mut self) {
        self.pinned = None;
    }
}

impl Elastic {
    /// Lets go of a ticket, loaded or not.
    pub fn release(&mut self, ticket: Ticket) {
        let Some(key) = self.tickets.remove(&ticket) else { return };
        if self.loaded.len() > 2 * self.tickets.len() + 64 {
            // They are not requested.
            self.loaded.retain(|ticket| self.tickets.contains_key(ticket));
        }
        let Some(staged) = self.staged.get_mut(&key) else { return };
        staged.holders -= 1;
        staged.waiting.retain(|waiting| *waiting != ticket);
        if staged.holders == 0
            && let Some(Staged { state, pinned, .. }) = self.staged.remove(&key)
        {
            self.staged_bytes -= state_bytes(&state);
            if let Some(page) = pinned {
                self.table.unpin(page);
            }
        }
    }

    /// A ticket whose wait is over, each once: loaded, absent or failed.
    pub fn poll_loaded(&mut self) -> Option<Ticket> {
        loop {
            let ticket = self.loaded.pop_front()?;
            if self.tickets.contains_key(&ticket) {
                return Some(ticket);
            }
        }
    }

    /// What is known of a staged key.
    pub(super) fn staged_state(&self, key: &[u8]) -> Option<&State> {
        if self.staged.is_empty() {
            return None;
        }
        self.staged.get(&StagedKey::Key(key.into())).map(|staged| &staged.state)
    }

    /// Begins to wait, or joins an existing wait.
    pub(super) fn stage(&mut self, key: &StagedKey, hash: u64) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.tickets.insert(ticket, key.clone());
        let is_new = !self.staged.contains_key(key);
        let staged = self.staged.entry(key.clone()).or_insert_with(|| Staged {
            hash,
            state: State::Reading { tried: Vec::new() },
            waiting: Vec::new(),
            holders: 0,
            pinned: None,
        });
        staged.holders += 1;
        match staged.state {
            State::Reading { .. } => staged.waiting.push(ticket),
            _ => self.loaded.push_back(ticket),
        }
        if is_new {
            self.advance(key);
        }
        ticket
    }

    /// Asks the disk once more for a key whose page or record has moved since.
    pub(super) fn restart(&mut self, key: &StagedKey) {
        if let Some(staged) = self.staged.get_mut(key) {
            self.staged_bytes -= state_bytes(&staged.state);
            staged.state = State::Reading { tried: Vec::new() };
            self.advance(key);
        }
    }

    /// Does what can be done for a key being read.
    pub(super) fn advance(&mut self, key: &StagedKey) {
        let Some(staged) = self.staged.get(key) else { return };
        let (hash, State::Reading { tried }) = (staged.hash, &staged.state) else { return };
        match *key {
            StagedKey::Page(page) => {
                if self.table.is_resident(page) {
                    self.resolve(key, State::Absent);
                } else {
                    self.await_page(page, key.clone());
                }
            }
            StagedKey::Slot { location, .. } => match self.table.find(hash, location) {
                Some(slot) => self.read_record(key.clone(), slot),
                None => self.resolve(key, State::Absent),
            },
            StagedKey::Key(_) => {
                let page = self.table.page_of(hash);
                if !self.table.is_resident(page) {
                    return self.await_page(page, key.clone());
                }
                let tried = tried.clone();
                // It must not leave again while the record is read.
                self.pin(key);
                let candidates = self.table.candidates(hash);
                let segments = &self.log.segments;
                let is_new = |slot: &Slot| !tried.contains(&segments.address(slot.location));
                let next = candidates.into_iter().find(is_new);
                match next {
                    Some(slot) => self.read_record(key.clone(), slot),
                    None => self.resolve(key, State::Absent),
                }
            }
        }
    }

    fn read_record(&mut self, key: StagedKey, slot: Slot) {
        if let Some(bytes) = self.log.buffered(slot.location) {
            let bytes = bytes[..slot.class.bytes().min(bytes.len())].to_vec();
            return self.take_record(&key, slot, Ok(bytes));
        }
        self.ledger.stats.record_reads += 1;
        self.outbox.read_record(&mut self.log.segments, slot, Purpose::Record { key, slot });
    }

    /// Takes a record read for `key`.
    pub(super) fn record_read(&mut self, key: &StagedKey, slot: Slot, result: io::Result<Vec<u8>>) {
        self.log.segments.end_read(self.log.segments.slot(slot.location));
        let Some(staged) = self.staged.get_mut(key) else { return };
        let hash = staged.hash;
        let State::Reading { tried } = &mut staged.state else { return };
        let still_there = self.table.is_resident(self.table.page_of(hash))
            && self.table.find(hash, slot.location).is_some();
        if still_there || matches!(key, StagedKey::Slot { .. }) {
            self.take_record(key, slot, result);
        } else {
            tried.clear();
            self.advance(key);
        }
    }

    fn take_record(&mut self, key: &StagedKey, slot: Slot, result: io::Result<Vec<u8>>) {
        let address = self.log.segments.address(slot.location);
        let file = FileName::Segment(address.segment());
        let offset = address.offset();
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                let error = Error::ReadFailed { file, offset, reason: error.to_string() };
                self.ledger.report(error.clone());
                return self.resolve(key, State::Failed { error, location: None });
            }
        };
        let record = match Record::read(address, &bytes) {
            Ok(record) => record,
            Err(broken) => {
                let error = Error::Damaged { file, offset, found: broken.to_string() };
                self.ledger.report(error.clone());
                // A request for the name only can be served, if its hash shows that it is intact.
                if let StagedKey::Slot { hash, .. } = *key
                    && let Some(name) =
                        Record::name(&bytes).filter(|name| self.origin.hasher.hash(name) == hash)
                {
                    let over_at = Expiry::NEVER;
                    return self.resolve(key, State::Found { key: name.into(), over_at });
                }
                // Whose record it was, its hash has to tell: another key of the same forty bits
                // is a matter of one in a million.
                let location = Some(slot.location);
                return self.resolve(key, State::Failed { error, location });
            }
        };
        match key {
            StagedKey::Slot { .. } => {
                let over_at = record.body.expires_at;
                self.resolve(key, State::Found { key: record.key.into(), over_at });
            }
            StagedKey::Key(wanted) if **wanted == *record.key => {
                let range = record.body_range();
                let hash = self.origin.hasher.hash(wanted);
                self.usage.note(hash, range.len(), &self.table, &self.memory);
                // Refused for its size, it is read from disk again.
                let _ = self.memory.insert(hash, wanted, &bytes[range.clone()], None, NEVER);
                let bytes = BodyBytes { bytes, range };
                self.resolve(key, State::Body { bytes, location: slot.location });
            }
            _ => {
                if let Some(Staged { state: State::Reading { tried }, .. }) =
                    self.staged.get_mut(key)
                {
                    tried.push(address);
                }
                self.advance(key);
            }
        }
    }

    /// Ends the wait for `key`.
    pub(super) fn resolve(&mut self, key: &StagedKey, state: State) {
        let Some(staged) = self.staged.get_mut(key) else { return };
        self.staged_bytes += state_bytes(&state);
        self.staged_bytes -= state_bytes(&staged.state);
        staged.state = state;
        self.loaded.extend(staged.waiting.drain(..));
        self.pin(key);
    }

    /// Keeps the page of `key` in memory until its last ticket is released.
    fn pin(&mut self, key: &StagedKey) {
        let Some(staged) = self.staged.get_mut(key) else { return };
        let page = match *key {
            StagedKey::Page(page) => page,
            _ => self.table.page_of(staged.hash),
        };
        if staged.pinned != Some(page) {
            self.table.pin(page);
            if let Some(before) = staged.pinned.replace(page) {
                self.table.unpin(before);
            }
        }
    }

    /// Informs a staged key of a write or removal.
    pub(super) fn restage(&mut self, key: &[u8], entry: Option<(Body<'_>, Location)>) {
        if self.staged_state(key).is_none() {
            return;
        }
        let state = entry.map_or(State::Absent, |(body, location)| State::Body {
            bytes: BodyBytes::of(body),
            location,
        });
        self.resolve(&StagedKey::Key(key.into()), state);
    }

    /// Informs staged entries that a record has moved.
    pub(super) fn restage_moved(&mut self, from: Location, to: Location) {
        for staged in self.staged.values_mut() {
            match &mut staged.state {
                State::Body { location, .. } if *location == from => *location = to,
                _ => {}
            }
        }
    }

    /// Informs staged entries that a record was dropped.
    pub(super) fn unstage_location(&mut self, gone: Location) {
        for staged in self.staged.values_mut() {
            if matches!(&staged.state, State::Body { location, .. } if *location == gone) {
                self.staged_bytes -= state_bytes(&staged.state);
                staged.state = State::Absent;
            }
        }
    }
}

fn state_bytes(state: &State) -> usize {
    match state {
        State::Body { bytes, .. } => bytes.bytes.len() + size_of::<Staged>(),
        State::Found { key, .. } => key.len() + size_of::<Staged>(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
