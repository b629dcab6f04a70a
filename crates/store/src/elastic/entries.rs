//! Loading and reading entries.

use std::time::Duration;

use super::locating::Located;
use super::recent::Places;
use super::record::{Body, Expiry, NEVER};
use super::staged_key::StagedKey;
use super::staging::State;
use super::{Elastic, Error, Fetch, Load, Record};

impl Elastic {
    /// Prefetches the memory that a lookup of `key` reads first, for a command that is executed
    /// soon; `writes` if it also writes. Pass the result to [`Elastic::prefetch_item`] after other
    /// keys were prefetched.
    pub fn prefetch(&self, key: &[u8], writes: bool) -> u64 {
        let hash = self.hash(key);
        if writes {
            self.table.prefetch(hash);
        }
        self.memory.prefetch(hash);
        hash
    }

    /// The second step of [`Elastic::prefetch`].
    pub fn prefetch_item(&self, hash: u64) {
        self.memory.prefetch_item(hash);
    }

    /// Makes the entry readable for the running command, and writable whether it is there or not.
    pub fn load(&mut self, key: &[u8], now: Duration) -> Load {
        let hash = self.hash(key);
        if self.load_only(hash, key, now) {
            return Load::Present;
        }
        if !matches!(self.locate(hash, key), Located::Unknown) {
            return self.load_hashed(hash, key, now);
        }
        let staged_key = StagedKey::Key(key.into());
        match self.staging.of_key(key) {
            // An entry that could not be read stays unreadable until it is written.
            Some(State::Failed { error, .. }) => return Load::Failed(error.clone()),
            // Its page or its record moved since.
            Some(state) if state.is_known() => self.restart(&staged_key),
            _ => {}
        }
        if let Some(error) = self.page_error(hash) {
            return Load::Failed(error);
        }
        Load::Pending(self.stage(&staged_key, hash))
    }

    /// Makes the entry readable for the running command, which does not write it. Cheaper than
    /// [`Elastic::load`] for entries in memory: the storage table is not asked.
    pub fn load_to_read(&mut self, key: &[u8], now: Duration) -> Load {
        let hash = self.hash(key);
        self.load_hashed(hash, key, now)
    }

    /// The entry, loaded and read in one step by a command that touches nothing else.
    pub fn fetch(&mut self, key: &[u8], now: Duration) -> Fetch<'_> {
        let hash = self.hash(key);
        if self.recent.is_empty()
            && !self.staging.has_key(hash, key)
            && let Some(at) = self.memory.find_used(hash, key)
            && !Body::read(self.memory.value_at(at)).expires_at.is_over(now)
        {
            self.note_hit(hash, self.memory.value_at(at).len());
            return Fetch::Present(record(Body::read(self.memory.value_at(at))));
        }
        match self.load_hashed(hash, key, now) {
            Load::Present => match self.body(hash, key) {
                Some(body) => Fetch::Present(record(body)),
                None => Fetch::Absent,
            },
            Load::Absent => Fetch::Absent,
            Load::Pending(ticket) => Fetch::Pending(ticket),
            Load::Failed(error) => Fetch::Failed(error),
        }
    }

    /// A lookup found an entry of `value_bytes` in memory.
    fn note_hit(&mut self, hash: u64, value_bytes: usize) {
        self.ledger.stats.hits += 1;
        self.usage.note(hash, value_bytes, &self.table, &self.memory);
    }

    /// The common case: memory holds the entry, and its record is the only one with this hash.
    fn load_only(&mut self, hash: u64, key: &[u8], now: Duration) -> bool {
        let is_plain = self.staging.is_empty()
            && !self.recent.has_gone()
            && self.table.is_resident(self.table.page_of(hash))
            && self.recent.location(&self.log, hash, key).is_none();
        if !is_plain {
            return false;
        }
        // Both tables are waited for at once, as a command that comes alone has nothing fetched
        // before.
        self.memory.prefetch(hash);
        self.table.prefetch(hash);
        let [slot] = self.table.candidates(hash)[..] else { return false };
        let Some(at) = self.memory.find_used(hash, key) else { return false };
        let body = Body::read(self.memory.value_at(at));
        if body.expires_at.is_over(now) {
            return false;
        }
        let value_bytes = body.value.len();
        self.note_hit(hash, value_bytes);
        self.recent.set_known(key, Places { hash, slot, memory: at });
        true
    }

    fn load_hashed(&mut self, hash: u64, key: &[u8], now: Duration) -> Load {
        // A resumed command finds in memory what was read for it: this does not count as a second
        // lookup or use.
        let is_staged = self.staging.has_key(hash, key);
        if let Some((expires_at, value_bytes)) = self.expiry_in_memory(hash, key, !is_staged) {
            if !is_staged {
                self.note_hit(hash, value_bytes);
            }
            return self.present_until(expires_at, hash, key, now);
        }
        if is_staged {
            return self.load_staged(hash, key, now);
        }
        match self.locate(hash, key) {
            Located::Nowhere => {
                self.ledger.stats.absent += 1;
                Load::Absent
            }
            Located::At(slot) if self.log.buffered(slot.location).is_some() => {
                self.recent.note(&self.log, hash, key, slot.location);
                self.load_hashed(hash, key, now)
            }
            Located::At(_) | Located::Unknown => self.load_staged(hash, key, now),
        }
    }

    fn expiry_in_memory(&mut self, hash: u64, key: &[u8], is_use: bool) -> Option<(Expiry, usize)> {
        let body = if let Some(location) = self.recent.location(&self.log, hash, key) {
            self.log.buffered_record(location)?.body
        } else if is_use {
            Body::read(self.memory.lookup(hash, key, NEVER)?)
        } else {
            Body::read(self.memory.peek(hash, key, NEVER)?.value)
        };
        Some((body.expires_at, body.value.len()))
    }

    fn load_staged(&mut self, hash: u64, key: &[u8], now: Duration) -> Load {
        match self.staging.of_key(key) {
            Some(State::Body { bytes, .. }) => {
                let expires_at = bytes.body().expires_at;
                self.present_until(expires_at, hash, key, now)
            }
            Some(State::Absent) => Load::Absent,
            Some(State::Failed { error, .. }) => Load::Failed(error.clone()),
            _ => match self.page_error(hash) {
                Some(error) => Load::Failed(error),
                None => Load::Pending(self.stage(&StagedKey::Key(key.into()), hash)),
            },
        }
    }

    /// Returns the error of the page of this hash if the page cannot be read.
    pub(super) fn page_error(&self, hash: u64) -> Option<Error> {
        Some(self.paging.missing(self.table.page_of(hash))?.error.clone())
    }

    fn present_until(&mut self, expires_at: Expiry, hash: u64, key: &[u8], now: Duration) -> Load {
        if !expires_at.is_over(now) {
            return Load::Present;
        }
        // If the removal cannot be recorded now, the entry stays expired.
        if let Located::At(slot) = self.locate(hash, key)
            && self.remove_slot(hash, key, slot, now).is_ok()
        {
            self.ledger.stats.expirations += 1;
        }
        Load::Absent
    }

    /// The entry, if [`Elastic::load`] said it is present.
    pub fn read(&mut self, key: &[u8], now: Duration) -> Option<Record<'_>> {
        let hash = self.hash(key);
        let body = self.body(hash, key)?;
        (!body.expires_at.is_over(now)).then(|| record(body))
    }

    pub(super) fn body(&self, hash: u64, key: &[u8]) -> Option<Body<'_>> {
        if let Some(location) = self.recent.location(&self.log, hash, key) {
            return Some(self.log.buffered_record(location)?.body);
        }
        if let Some(peek) = self.memory.peek(hash, key, NEVER) {
            return Some(Body::read(peek.value));
        }
        match self.staging.of_key(key)? {
            State::Body { bytes, .. } => Some(bytes.body()),
            _ => None,
        }
    }
}

fn record(body: Body<'_>) -> Record<'_> {
    Record { value: body.value, expires_at: body.expires_at.time(), version: body.version }
}
