//! Writing and removing entries.

use std::time::Duration;

use super::compaction::{DEAD_AWAITED, DEAD_MIN_FULL};
use super::locating::Located;
use super::log::Who;
use super::pointing::{kill_slot, point_to};
use super::record::{Address, Body, Expiry, Kind, Record as LogRecord, record_bytes};
use super::staging::State;
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
            Err(Error::Full { .. })
                if self.upkeep.compactor.is_room_near(&self.log, DEAD_AWAITED) =>
            {
                Err(Error::Busy { buffered_bytes: 0 })
            }
            Ok(()) if self.upkeep.compactor.is_behind() || self.are_pages_behind() => {
                Err(Error::Busy { buffered_bytes: 0 })
            }
            answer => answer,
        }
    }

    /// Whether removals are accepted now: on a full disk they are accepted as long as possible,
    /// because they free space.
    ///
    /// # Errors
    /// As [`Elastic::accepts_writes`].
    pub fn accepts_removals(&self) -> Result<(), Error> {
        match self.log.accepts_removals() {
            Err(Error::Full { .. })
                if self.upkeep.compactor.is_room_near(&self.log, DEAD_MIN_FULL) =>
            {
                Err(Error::Busy { buffered_bytes: 0 })
            }
            answer => answer,
        }
    }

    /// Stores `value` under a key loaded before by [`Elastic::load`], in place of any older value.
    /// A key whose load failed may be written too: damaged data is replaced.
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
        let known = self.recent.known(key);
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
        let version = self.origin.versions_before + self.log.position().0 + bytes;
        let body = Body { version, expires_at: Expiry::new(expires_at), value };
        let record = LogRecord { kind: Kind::Put, more: false, durable: 0, kills, key, body };
        let (location, class) = self.log.append(Who::Writer, hash, record, now)?;
        debug_assert_eq!(version, self.origin.versions_before + self.log.position().0);
        self.log.note_version(version);
        self.ledger.stats.written_bytes += record.bytes() as u64;
        self.recent.forget_known();
        point_to(&mut self.log, &mut self.table, hash, old, Slot { location, class });
        // A value in memory is overwritten at once if the new one has the same length, from its
        // parts, because reading back the appended record would wait for memory.
        let is_overwritten = known.is_some_and(|known| {
            self.memory.overwrite_at(known.memory, [&body.head(), body.value])
        });
        if !is_overwritten {
            self.recent.note(&self.log, hash, key, location);
        }
        self.staging.restage(key, Some((body, location)), &mut self.table);
        Ok(Written { position: self.log.position(), version })
    }

    /// Reserves room for a step that writes and removes at most `entries`, with keys and values of
    /// `bytes` in total, and with `clears` clears the store, any number of times; `frees` if it
    /// only removes. Nothing is written before the step begins.
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
        // A removal takes a list with one element; header and padding of an entry are shorter.
        let each = record_bytes(0, 16);
        let who = if frees { Who::Remover } else { Who::Writer };
        self.log.reserve_step(who, entries, entries * each + bytes, clears)
    }

    /// Begins a step: what is written and removed until [`Elastic::end_step`] survives a crash as a
    /// whole or not at all. It must not exceed the reservation, and between the two calls only the
    /// operations of commands may be called.
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
        match self.staging.of_key(key) {
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
        self.recent.forget_known();
        kill_slot(&mut self.log, &mut self.table, hash, slot, now)?;
        self.forget(hash, key);
        if !self.table.candidates(hash).is_empty() {
            self.recent.note_gone(key);
        }
        Ok(())
    }

    /// Takes a removed key out of memory.
    fn forget(&mut self, hash: u64, key: &[u8]) {
        self.memory.remove(hash, key);
        self.recent.forget(&self.log, hash, key);
        self.staging.restage(key, None, &mut self.table);
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The removal cannot be recorded for lack of space. Then nothing changed.
    pub fn clear(&mut self, now: Duration) -> Result<Position, Error> {
        self.log.clear(now)?;
        self.paging.begin_table(&mut self.table);
        self.memory.clear();
        self.recent.clear();
        self.staging.clear(&mut self.table);
        self.upkeep.stop();
        Ok(self.log.position())
    }
}
