//! Entries and table pages that are read from disk, and the commands that wait for them.
//!
//! A staged entry stays readable until its last ticket is released, even if memory is short, so a
//! command whose keys do not fit into memory together still runs.

mod hashes;
mod state;

use std::collections::VecDeque;
use std::io;

use hashbrown::HashMap;

use super::key_hash::KeyHasher;
use super::ledger::Ledger;
use super::log::Log;
use super::outbox::{Outbox, Purpose};
use super::paging::Paging;
use super::record::{Body, Expiry, NEVER, Record};
use super::staged_key::StagedKey;
use super::table::{Location, Slot, Table};
use super::usage::Usage;
use super::{Error, Ticket};
use crate::device::FileName;
use crate::memory::Memory;
use hashes::Hashes;
use state::BodyBytes;
pub(super) use state::State;

#[derive(Debug)]
struct Staged {
    hash: u64,
    state: State,
    waiting: Vec<Ticket>,
    holders: usize,
    pinned: Option<u32>,
}

/// Owns the held tickets, and the state of the entries that they wait for.
///
/// Invariants: an entry is here while a ticket for it is held; once its page of the storage table
/// is in memory, the page is pinned until the last ticket is released; `bytes` is the sum over all
/// states.
#[derive(Debug, Default)]
pub(super) struct Staging {
    staged: HashMap<StagedKey, Staged>,
    hashes: Hashes,
    bytes: usize,
    tickets: HashMap<Ticket, StagedKey>,
    loaded: VecDeque<Ticket>,
    last_ticket: u64,
}

/// Other parts of the store that a wait uses.
pub(super) struct Borrows<'a> {
    /// Records are read from it.
    pub(super) log: &'a mut Log,
    /// Contains the candidate records of a key.
    pub(super) table: &'a mut Table,
    /// Entries that were read are inserted.
    pub(super) memory: &'a mut Memory,
    /// Reads back pages of the table that are not in memory.
    pub(super) paging: &'a mut Paging,
    pub(super) outbox: &'a mut Outbox,
    /// Counts the lookups that wait for a record.
    pub(super) usage: &'a mut Usage,
    pub(super) ledger: &'a mut Ledger,
    pub(super) hasher: &'a KeyHasher,
}

impl Staging {
    /// True if no ticket is pending or held.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Releases a ticket, loaded or not.
    pub(super) fn release(&mut self, ticket: Ticket, table: &mut Table) {
        let Some(key) = self.tickets.remove(&ticket) else { return };
        if self.loaded.len() > 2 * self.tickets.len() + 64 {
            // They are not requested.
            self.loaded.retain(|ticket| self.tickets.contains_key(ticket));
        }
        let Some(staged) = self.staged.get_mut(&key) else { return };
        staged.holders -= 1;
        staged.waiting.retain(|waiting| *waiting != ticket);
        if staged.holders == 0
            && let Some(Staged { hash, state, pinned, .. }) = self.staged.remove(&key)
        {
            self.hashes.remove(hash);
            self.bytes -= state.held_bytes();
            if let Some(page) = pinned {
                table.unpin(page);
            }
        }
    }

    /// Returns a ticket whose load has ended (loaded, absent or failed), each once.
    pub(super) fn poll_loaded(&mut self) -> Option<Ticket> {
        loop {
            let ticket = self.loaded.pop_front()?;
            if self.tickets.contains_key(&ticket) {
                return Some(ticket);
            }
        }
    }

    /// Returns the state of a key for which a ticket is held.
    #[inline]
    pub(super) fn of_key(&self, key: &[u8]) -> Option<&State> {
        if self.staged.is_empty() {
            return None;
        }
        self.of(&StagedKey::Key(key.into()))
    }

    /// True if a ticket for the key is held. Its lookup is counted when its record is read.
    #[inline]
    pub(super) fn has_key(&self, hash: u64, key: &[u8]) -> bool {
        self.hashes.may_have(hash) && self.of_key(key).is_some()
    }

    /// Returns the state of anything that a ticket is for.
    pub(super) fn of(&self, key: &StagedKey) -> Option<&State> {
        self.staged.get(key).map(|staged| &staged.state)
    }

    /// Begins to wait, or joins an existing wait.
    pub(super) fn stage(
        &mut self,
        key: &StagedKey,
        hash: u64,
        borrows: &mut Borrows<'_>,
    ) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
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
            self.hashes.add(hash);
            self.advance(key, borrows);
        }
        ticket
    }

    /// Reads again for a key whose page or record has moved since.
    pub(super) fn restart(&mut self, key: &StagedKey, borrows: &mut Borrows<'_>) {
        if let Some(staged) = self.staged.get_mut(key) {
            self.bytes -= staged.state.held_bytes();
            staged.state = State::Reading { tried: Vec::new() };
            self.advance(key, borrows);
        }
    }

    /// Continues the load of a key as far as possible.
    pub(super) fn advance(&mut self, key: &StagedKey, borrows: &mut Borrows<'_>) {
        let Some(staged) = self.staged.get(key) else { return };
        let (hash, State::Reading { tried }) = (staged.hash, &staged.state) else { return };
        match *key {
            StagedKey::Page(page) => {
                if borrows.table.is_resident(page) {
                    self.resolve(key, State::Absent, borrows.table);
                } else {
                    self.await_page(page, key, borrows);
                }
            }
            StagedKey::Slot { location, .. } => match borrows.table.find(hash, location) {
                Some(slot) => self.read_record(key.clone(), slot, borrows),
                None => self.resolve(key, State::Absent, borrows.table),
            },
            StagedKey::Key(_) => {
                let page = borrows.table.page_of(hash);
                if !borrows.table.is_resident(page) {
                    return self.await_page(page, key, borrows);
                }
                let tried = tried.clone();
                // The page must not be written out again while the record is read.
                self.pin(key, borrows.table);
                let candidates = borrows.table.candidates(hash);
                let segments = &borrows.log.segments;
                let is_new = |slot: &Slot| !tried.contains(&segments.address(slot.location));
                let next = candidates.into_iter().find(is_new);
                match next {
                    Some(slot) => self.read_record(key.clone(), slot, borrows),
                    None => self.resolve(key, State::Absent, borrows.table),
                }
            }
        }
    }

    fn await_page(&mut self, page: u32, key: &StagedKey, borrows: &mut Borrows<'_>) {
        if let Err(error) = borrows.paging.ask(page, key.clone()) {
            self.resolve(key, State::Failed { error, location: None }, borrows.table);
        }
    }

    fn read_record(&mut self, key: StagedKey, slot: Slot, borrows: &mut Borrows<'_>) {
        if let Some(bytes) = borrows.log.buffered(slot.location) {
            let bytes = bytes[..slot.class.bytes().min(bytes.len())].to_vec();
            return self.take_record(&key, slot, Ok(bytes), borrows);
        }
        borrows.ledger.stats.record_reads += 1;
        let purpose = Purpose::Record { key, slot };
        borrows.outbox.read_record(&mut borrows.log.segments, slot, purpose);
    }

    /// Takes a record read for `key`.
    pub(super) fn record_read(
        &mut self,
        key: &StagedKey,
        slot: Slot,
        result: io::Result<Vec<u8>>,
        borrows: &mut Borrows<'_>,
    ) {
        let segment = borrows.log.segments.slot(slot.location);
        borrows.log.segments.end_read(segment);
        let Some(staged) = self.staged.get_mut(key) else { return };
        let hash = staged.hash;
        let State::Reading { tried } = &mut staged.state else { return };
        let still_there = borrows.table.is_resident(borrows.table.page_of(hash))
            && borrows.table.find(hash, slot.location).is_some();
        if still_there || matches!(key, StagedKey::Slot { .. }) {
            self.take_record(key, slot, result, borrows);
        } else {
            tried.clear();
            self.advance(key, borrows);
        }
    }

    fn take_record(
        &mut self,
        key: &StagedKey,
        slot: Slot,
        result: io::Result<Vec<u8>>,
        borrows: &mut Borrows<'_>,
    ) {
        let address = borrows.log.segments.address(slot.location);
        let file = FileName::Segment(address.segment());
        let offset = address.offset();
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                let error = Error::ReadFailed { file, offset, reason: error.to_string() };
                borrows.ledger.report(error.clone());
                return self.resolve(key, State::Failed { error, location: None }, borrows.table);
            }
        };
        let record = match Record::read(address, &bytes) {
            Ok(record) => record,
            Err(broken) => {
                let error = Error::Damaged { file, offset, found: broken.to_string() };
                borrows.ledger.report(error.clone());
                // A request for the name only can be served, if its hash shows that it is intact.
                if let StagedKey::Slot { hash, .. } = *key
                    && let Some(name) =
                        Record::name(&bytes).filter(|name| borrows.hasher.hash(name) == hash)
                {
                    let over_at = Expiry::NEVER;
                    return self.resolve(
                        key,
                        State::Found { key: name.into(), over_at },
                        borrows.table,
                    );
                }
                // The hash decides whose record it was: the probability of another key with the
                // same forty bits is one in a million.
                let location = Some(slot.location);
                return self.resolve(key, State::Failed { error, location }, borrows.table);
            }
        };
        match key {
            StagedKey::Slot { .. } => {
                let over_at = record.body.expires_at;
                self.resolve(key, State::Found { key: record.key.into(), over_at }, borrows.table);
            }
            StagedKey::Key(wanted) if **wanted == *record.key => {
                let range = record.body_range();
                let hash = borrows.hasher.hash(wanted);
                for _ in 0..self.staged.get(key).map_or(0, |staged| staged.waiting.len()) {
                    borrows.usage.note(hash, range.len(), borrows.table, borrows.memory);
                }
                // An entry refused for its size is read from disk again.
                let _ = borrows.memory.insert(hash, wanted, &bytes[range.clone()], None, NEVER);
                let bytes = BodyBytes::new(bytes, range);
                self.resolve(key, State::Body { bytes, location: slot.location }, borrows.table);
            }
            _ => {
                if let Some(Staged { state: State::Reading { tried }, .. }) =
                    self.staged.get_mut(key)
                {
                    tried.push(address);
                }
                self.advance(key, borrows);
            }
        }
    }

    /// Ends the wait for `key`.
    pub(super) fn resolve(&mut self, key: &StagedKey, state: State, table: &mut Table) {
        let Some(staged) = self.staged.get_mut(key) else { return };
        self.bytes += state.held_bytes();
        self.bytes -= staged.state.held_bytes();
        staged.state = state;
        self.loaded.extend(staged.waiting.drain(..));
        self.pin(key, table);
    }

    /// Notes that the table was replaced by an empty one: pins are void, and awaited entries are
    /// absent. The waits end in the order of their tickets, because the order of the map differs
    /// between processes, and commands would resume in that order.
    pub(super) fn clear(&mut self, table: &mut Table) {
        for staged in self.staged.values_mut() {
            staged.pinned = None;
        }
        let ended_before = self.loaded.len();
        for key in self.staged.keys().cloned().collect::<Vec<_>>() {
            self.resolve(&key, State::Absent, table);
        }
        self.loaded.make_contiguous()[ended_before..].sort_unstable();
    }

    /// Keeps the page of `key` in memory until its last ticket is released.
    fn pin(&mut self, key: &StagedKey, table: &mut Table) {
        let Some(staged) = self.staged.get_mut(key) else { return };
        let page = match *key {
            StagedKey::Page(page) => page,
            _ => table.page_of(staged.hash),
        };
        if staged.pinned != Some(page) {
            table.pin(page);
            if let Some(before) = staged.pinned.replace(page) {
                table.unpin(before);
            }
        }
    }

    /// Informs a staged key of a write or removal.
    #[inline]
    pub(super) fn restage(
        &mut self,
        key: &[u8],
        entry: Option<(Body<'_>, Location)>,
        table: &mut Table,
    ) {
        if self.of_key(key).is_none() {
            return;
        }
        let state = entry.map_or(State::Absent, |(body, location)| State::Body {
            bytes: BodyBytes::of(body),
            location,
        });
        self.resolve(&StagedKey::Key(key.into()), state, table);
    }

    /// Informs staged entries that a record has moved.
    pub(super) fn record_moved(&mut self, from: Location, to: Location) {
        for staged in self.staged.values_mut() {
            match &mut staged.state {
                State::Body { location, .. } if *location == from => *location = to,
                _ => {}
            }
        }
    }

    /// Informs staged entries that a record was dropped.
    pub(super) fn record_gone(&mut self, gone: Location) {
        for staged in self.staged.values_mut() {
            if matches!(&staged.state, State::Body { location, .. } if *location == gone) {
                self.bytes -= staged.state.held_bytes();
                staged.state = State::Absent;
            }
        }
    }
}

#[cfg(test)]
mod tests;
