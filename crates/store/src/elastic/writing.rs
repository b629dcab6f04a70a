//! Writing and removing entries.

use std::time::Duration;

use super::compaction::{DEAD_AWAITED, DEAD_MIN_FULL};
use super::locating::Located;
use super::log::{Who, kills_of};
use super::record::{Address, Body, Expiry, Kind, Record as LogRecord, record_bytes};
use super::staged::State;
use super::table::Slot;
use super::{Elastic, Error, Position, Written};

impl Elastic {
    /// Whether writes are accepted now.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Busy`] (try again after the next completion), or why not.
    #[inline]
    pub fn accepts_writes(&self) -> Result<(), Error> {
        match self.log.accepts_writes() {
            Err(Error::Full { .. }) if self.is_room_near(DEAD_AWAITED) => {
                Err(Error::Busy { buffered_bytes: 0 })
            }
            Ok(()) if self.compaction_behind || self.are_pages_behind() => {
                Err(Error::Busy { buffered_bytes: 0 })
            }
            answer => answer,
        }
    }

    /// Whether removals are accepted now: on a full disk they are for as long as can be, as they
    /// are what frees it.
    ///
    /// # Errors
    /// As [`Elastic::accepts_writes`].
    pub fn accepts_removals(&self) -> Result<(), Error> {
        match self.log.accepts_removals() {
            Err(Error::Full { .. }) if self.is_room_near(DEAD_MIN_FULL) => {
                Err(Error::Busy { buffered_bytes: 0 })
            }
            answer => answer,
        }
    }

    /// Stores `value` under a key loaded before by [`Elastic::load`], in place of any older
    /// value. A key whose load failed may be written too: what was damaged is replaced.
    ///
    /// # Errors
    /// As [`Elastic::accepts_writes`], and when key or value are too long. Then nothing changed.
    pub fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<Duration>,
        now: Duration,
    ) -> Result<Written, Error> {
        self.check(key, value)?;
        let known = self.known.get(key);
        let hash = known.map_or_else(|| self.hash(key), |known| known.hash);
        let old = match known {
            Some(known) => Some(known.slot),
            None => match self.locate(hash, key) {
                Located::At(slot) => Some(slot),
                Located::Nowhere => None,
                Located::Unknown => return Err(self.not_loaded(key)),
            },
        };
        if old.is_none() && !self.table.has_room(hash) {
            return Err(Error::TableFull { entries: self.table.len() });
        }
        let kills = old.map_or(Address::NONE, |old| self.log.segments.address(old.location));
        let bytes = record_bytes(key.len(), value.len()) as u64;
        let version = self.versions_before + self.log.position().0 + bytes;
        let body = Body { version, expires_at: Expiry::new(expires_at), value };
        let record = LogRecord { kind: Kind::Put, more: false, durable: 0, kills, key, body };
        let (location, class) = self.log.append(Who::Writer, hash, record, now)?;
        debug_assert_eq!(version, self.versions_before + self.log.position().0);
        self.version = version;
        self.stats.written_bytes += record.bytes() as u64;
        self.point_to(hash, old, Slot { location, class });
        // What memory holds is written over at once, if that is of the same length; and from the
        // parts, as reading back what was just appended would wait for it.
        let is_overwritten = known.is_some_and(|known| {
            self.memory.overwrite_at(known.memory, [&body.head(), body.value])
        });
        if !is_overwritten {
            self.note_fresh(hash, key, location);
        }
        self.restage(key, Some((body, location)));
        Ok(Written { position: self.log.position(), version })
    }

    /// Reserves room for a step that writes and removes at most `entries`, with keys and values of
    /// `bytes` together, and `clears` the store, any number of times; `frees` if it only removes.
    /// Nothing is written before the step begins.
    ///
    /// # Errors
    /// [`Error::StepTooLong`] if it can never be written as a whole;
    /// [`Error::Full`], or [`Error::Busy`] (try again after the next completion).
    pub fn reserve_step(
        &mut self,
        entries: usize,
        bytes: usize,
        clears: bool,
        frees: bool,
    ) -> Result<(), Error> {
        // A removal's list of one; an entry's header and padding are less.
        let each = record_bytes(0, 16);
        let who = if frees { Who::Remover } else { Who::Writer };
        self.log.reserve_step(who, entries, entries * each + bytes, clears)
    }

    /// What is written and removed from here to [`Elastic::end_step`], no more than was reserved,
    /// survives a crash as a whole or not at all. Nothing else is called in between than what a
    /// command calls.
    pub fn begin_step(&mut self) {
        self.log.begin_step();
    }

    /// See [`Elastic::begin_step`].
    pub fn end_step(&mut self) {
        self.log.end_step();
    }

    fn check(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let limit = self.config.key_bytes_max.min(usize::from(u16::MAX));
        if key.len() > limit {
            return Err(Error::KeyTooLong { got: key.len(), limit });
        }
        let fits = self.log.record_bytes_max().saturating_sub(record_bytes(key.len(), 0));
        let limit = self.config.value_bytes_max.min(fits);
        if value.len() > limit {
            return Err(Error::ValueTooLong { got: value.len(), limit });
        }
        Ok(())
    }

    /// Removes the entry of a key loaded before by [`Elastic::load`]; `None` if there was none.
    ///
    /// # Errors
    /// When the removal cannot be recorded. Then nothing changed.
    pub fn remove(&mut self, key: &[u8], now: Duration) -> Result<Option<Position>, Error> {
        let hash = self.hash(key);
        match self.locate(hash, key) {
            Located::At(slot) => {
                let over = self.body(hash, key).is_some_and(|body| body.expires_at.is_over(now));
                self.remove_slot(hash, key, slot, now)?;
                Ok((!over).then(|| self.log.position()))
            }
            Located::Nowhere => Ok(None),
            Located::Unknown => Err(self.not_loaded(key)),
        }
    }

    fn not_loaded(&self, key: &[u8]) -> Error {
        match self.staged_state(key) {
            Some(State::Failed { error, .. }) => error.clone(),
            _ => self.page_error(self.hash(key)).unwrap_or(Error::NotLoaded),
        }
    }

    pub(super) fn remove_slot(
        &mut self,
        hash: u64,
        key: &[u8],
        slot: Slot,
        now: Duration,
    ) -> Result<(), Error> {
        self.kill_slot(hash, slot, now)?;
        self.forget(hash, key);
        if !self.table.candidates(hash).is_empty() {
            // Another key of the same hash is left: that it is another is known now, not later.
            self.gone.push(key.into());
        }
        Ok(())
    }

    /// Removes an entry from the table, and records that in the log.
    pub(super) fn kill_slot(&mut self, hash: u64, slot: Slot, now: Duration) -> Result<(), Error> {
        self.known.forget();
        let address = self.log.segments.address(slot.location);
        self.append_kills(Who::Remover, &[(hash, address)], now)?;
        self.table.remove(hash, slot.location);
        self.log.segments.kill(slot.location, slot.class);
        Ok(())
    }

    /// Takes a removed key out of memory.
    pub(super) fn forget(&mut self, hash: u64, key: &[u8]) {
        self.memory.remove(hash, key);
        if let Some(location) = self.fresh_location(hash, key) {
            let entry = self.fresh.find_entry(hash, |fresh| fresh.location == location);
            if let Ok(entry) = entry {
                entry.remove();
            }
        }
        self.restage(key, None);
    }

    /// Records that these records are dead.
    pub(super) fn append_kills(
        &mut self,
        who: Who,
        kills: &[(u64, Address)],
        now: Duration,
    ) -> Result<(), Error> {
        let mut value = Vec::with_capacity(kills.len() * 16);
        for (hash, address) in kills {
            value.extend_from_slice(&hash.to_le_bytes());
            value.extend_from_slice(&address.0.to_le_bytes());
        }
        debug_assert_eq!(kills_of(&value).count(), kills.len());
        let body = Body { version: self.version, expires_at: Expiry::NEVER, value: &value };
        let none = Address::NONE;
        let record =
            LogRecord { kind: Kind::Kills, more: false, durable: 0, kills: none, key: &[], body };
        self.log.append(who, 0, record, now).map(|_| ())
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The removal cannot be recorded for lack of space. Then nothing changed.
    pub fn clear(&mut self, now: Duration) -> Result<Position, Error> {
        self.log.clear(now)?;
        self.known.forget();
        self.begin_table();
        self.memory.clear();
        self.fresh.clear();
        self.gone.clear();
        for key in self.staged.keys().cloned().collect::<Vec<_>>() {
            self.resolve(&key, State::Absent);
        }
        self.compaction = None;
        self.sweep = None;
        self.walk = None;
        Ok(self.log.position())
    }

    fn point_to(&mut self, hash: u64, old: Option<Slot>, new: Slot) {
        self.known.forget();
        match old {
            Some(old) => {
                let replaced = self.table.replace(hash, old.location, new);
                debug_assert!(replaced, "the old record was located in the table");
                self.log.segments.kill(old.location, old.class);
            }
            None => {
                let inserted = self.table.insert(hash, new);
                debug_assert!(inserted, "there was room for one more");
            }
        }
        self.log.segments.revive(new.location, new.class);
    }
}
