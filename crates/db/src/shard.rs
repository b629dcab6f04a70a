//! One shard: its store, the clients that wait for its disk, and the clients that track its keys.

use std::{collections::BTreeSet, time::Duration};

use hashbrown::HashMap;
use store::{
    device::DeviceCommand,
    elastic::{self, Elastic, Load, Position, RandomKey, Record, Scan, Sync, Ticket},
};

#[cfg(test)]
mod tests;

use crate::{
    failure::Failure,
    stored::{DATABASES, Entry, StoredKey},
    tracking::{TRACKED_KEYS_MAX, Tracking},
};

/// Stored keys by name.
type Names = Vec<Box<[u8]>>;

/// Key of the entry that counts the keys of the databases other than 0; no client can use this key.
pub(crate) const COUNTS: &[u8] = &[0xff];
/// Length of these counts.
pub(crate) const COUNTS_BYTES: usize = 8 * DATABASES as usize;

/// The value of [`COUNTS`].
pub(crate) fn counts_value(counts: [u64; DATABASES as usize]) -> [u8; COUNTS_BYTES] {
    let mut bytes = [0; COUNTS_BYTES];
    for (bytes, count) in bytes.chunks_exact_mut(8).zip(counts) {
        bytes.copy_from_slice(&count.to_le_bytes());
    }
    bytes
}
/// Ends of keys remembered in each shard, so that they are noticed without a lookup; later ones are
/// noticed when they are read, or by the store's sweep.
const DEADLINES_MAX: usize = 8_192;
/// Ends noticed in one turn.
const EXPIRED_AT_ONCE: usize = 64;

/// Counters of one shard's keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Reads that found something.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys found to have expired.
    pub expired: u64,
    /// Writes and removals.
    pub changes: u64,
}

/// What [`Shard::load`] found.
pub(crate) enum Loaded {
    /// The entry can be read, or is known to be absent.
    Ready,
    /// The entry is being read from disk.
    Pending(Ticket),
    /// The disk could not read it.
    Failed(Failure),
}

/// A part of the keys.
pub struct Shard {
    /// Name of the shard's directory, for messages: file names alone do not identify the shard.
    pub name: Box<str>,
    /// The keys and values.
    pub store: Elastic,
    /// Clients that track changes.
    pub tracking: Tracking,
    /// Counters of the keys.
    pub counters: Counters,
    /// Position of the last record that the running command has written, or has read and that is
    /// not durable yet.
    pub written: Position,
    /// Position of the last removal; for keys that expired, of the last write that can have set the
    /// expiry.
    removed: Position,
    /// The last write of a key that ends.
    ending: Position,
    waiting: HashMap<Ticket, u64>,
    /// Keys in databases 1 and up.
    others: [u64; DATABASES as usize],
    /// The counts were read since the start.
    others_known: bool,
    /// The counts were kept by this process throughout, and no entry was dropped without its key
    /// being known.
    others_exact: bool,
    deadlines: BTreeSet<(Duration, Box<[u8]>)>,
}

impl Shard {
    /// A shard around `store`, called `name`.
    pub fn new(name: &str, store: Elastic) -> Self {
        Self {
            name: name.into(),
            store,
            tracking: Tracking::new(TRACKED_KEYS_MAX),
            counters: Counters::default(),
            written: Position::default(),
            removed: Position::default(),
            ending: Position::default(),
            waiting: HashMap::new(),
            others: [0; DATABASES as usize],
            others_known: false,
            others_exact: true,
            deadlines: BTreeSet::new(),
        }
    }

    /// Makes `key` readable, and writable if it is to be written; `client` is notified when it
    /// arrives.
    #[inline]
    pub(crate) fn load(
        &mut self,
        key: &StoredKey,
        to_write: bool,
        client: u64,
        now: Duration,
    ) -> Loaded {
        let before = self.store.len();
        let load = if to_write {
            self.store.load(&key.0, now)
        } else {
            self.store.load_to_read(&key.0, now)
        };
        if self.store.len() < before {
            self.expired(key.database(), key.key());
        }
        if to_write && key.database() != 0 && matches!(load, Load::Present | Load::Absent) {
            return self.load_counts(client, now);
        }
        self.wait_for(load, client)
    }

    /// Whether `key` can be loaded without reading from disk. May be false for some keys that can.
    pub(crate) fn is_at_hand(&mut self, key: &StoredKey, to_write: bool) -> bool {
        self.store.is_at_hand(&key.0, to_write)
            && (!to_write || key.database() == 0 || self.are_counts_at_hand())
    }

    /// See [`Self::load_counts`].
    pub(crate) fn are_counts_at_hand(&mut self) -> bool {
        self.store.is_at_hand(COUNTS, true)
    }

    fn wait_for(&mut self, load: Load, client: u64) -> Loaded {
        match load {
            Load::Present | Load::Absent => Loaded::Ready,
            Load::Pending(ticket) => {
                self.waiting.insert(ticket, client);
                Loaded::Pending(ticket)
            }
            Load::Failed(error) => Loaded::Failed(Failure::of_store(&self.name, &error)),
        }
    }

    /// Makes it known how many keys each database has.
    pub(crate) fn load_counts(&mut self, client: u64, now: Duration) -> Loaded {
        let load = self.store.load(COUNTS, now);
        if matches!(load, Load::Present) && !self.others_known {
            // A crash may have separated a key from its count.
            self.others_exact = false;
            let value = self.store.read(COUNTS, now).map_or(&[][..], |record| record.value);
            for (count, bytes) in self.others.iter_mut().zip(value.chunks_exact(8)) {
                *count = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
        }
        self.others_known |= matches!(load, Load::Present | Load::Absent);
        self.wait_for(load, client)
    }

    /// A key has expired, and the store has dropped it.
    fn expired(&mut self, database: u8, key: &[u8]) {
        self.counters.expired += 1;
        self.removed = self.removed.max(self.ending);
        if database != 0 {
            let count = &mut self.others[usize::from(database)];
            *count = count.saturating_sub(1);
        }
        self.tracking.changed(key, u64::MAX);
    }

    /// Whether the shard can be written now, or removed from if the command only `frees`. Returns
    /// `false` while the disk is behind.
    #[inline]
    pub(crate) fn accepts(&self, frees: bool) -> Result<bool, Failure> {
        let answer =
            if frees { self.store.accepts_removals() } else { self.store.accepts_writes() };
        match answer {
            Ok(()) => Ok(true),
            Err(elastic::Error::Busy { .. }) => Ok(false),
            Err(error) => Err(Failure::of_store(&self.name, &error)),
        }
    }

    /// Reserves room for a transaction that writes and removes at most `entries`, with keys and
    /// values of `bytes` together, and drops everything if it `clears`. `false` while the disk is
    /// behind.
    pub(crate) fn reserve(
        &mut self,
        entries: usize,
        bytes: usize,
        clears: bool,
        frees: bool,
    ) -> Result<bool, Failure> {
        match self.store.reserve_step(entries, bytes, clears, frees) {
            Ok(()) => Ok(true),
            Err(elastic::Error::Busy { .. }) => Ok(false),
            Err(error) => Err(Failure::of_store(&self.name, &error)),
        }
    }

    /// Length of the value of a loaded key.
    pub(crate) fn value_bytes(&mut self, key: &StoredKey, now: Duration) -> usize {
        self.store.read(&key.0, now).map_or(0, |record| record.value.len())
    }

    /// Returns a client for which one ticket has been loaded.
    pub fn poll_arrived(&mut self) -> Option<u64> {
        loop {
            let ticket = self.store.poll_loaded()?;
            if let Some(client) = self.waiting.remove(&ticket) {
                return Some(client);
            }
        }
    }

    /// Releases the data loaded for a command.
    pub(crate) fn release(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.store.release(ticket);
    }

    /// See [`Elastic::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, key: &StoredKey, writes: bool) -> u64 {
        self.store.prefetch(&key.0, writes)
    }

    pub(crate) fn read(&mut self, key: &StoredKey, now: Duration) -> Option<Entry<'_>> {
        let always = self.store.sync() == Sync::Always;
        let (before, durable) = (self.store.versions_before(), self.store.durable_up_to());
        let Some(Record { value, expires_at, version }) = self.store.read(&key.0, now) else {
            self.counters.misses += 1;
            if always && self.removed > durable {
                self.written = self.written.max(self.removed);
            }
            return None;
        };
        self.counters.hits += 1;
        // A reply must not be undone by a crash, even if another client wrote the value.
        let position = Position(version.saturating_sub(before));
        if always && position > durable {
            self.written = self.written.max(position);
        }
        Some(Entry { value, expires_at: expires_at.map(|at| at.as_millis() as u64), version })
    }

    pub(crate) fn write(
        &mut self,
        key: &StoredKey,
        value: &[u8],
        expires_at: Option<u64>,
        client: u64,
        now: Duration,
    ) -> Result<(), Failure> {
        let expires_at = expires_at.map(Duration::from_millis);
        if key.database() != 0 && self.only_database_0(now) {
            // Before the first key of another database, that there is one.
            self.keep_counts(now)?;
        }
        // Checked against the store, because an expired key may not have been noticed yet.
        let before = self.store.len();
        let written = self.store.write(&key.0, value, expires_at, now);
        self.written = written.map_err(|error| Failure::of_store(&self.name, &error))?.position;
        if expires_at.is_some() {
            self.ending = self.written;
        }
        if let Some(at) = expires_at
            && self.deadlines.len() < DEADLINES_MAX
        {
            self.deadlines.insert((at, key.0.as_slice().into()));
        }
        if key.database() != 0 && self.store.len() > before {
            self.others[usize::from(key.database())] += 1;
            self.try_to_keep_counts(now);
        }
        self.counters.changes += 1;
        self.tracking.changed(key.key(), client);
        Ok(())
    }

    /// Drops `key`; says whether it was there.
    pub(crate) fn remove(
        &mut self,
        key: &StoredKey,
        client: u64,
        now: Duration,
    ) -> Result<bool, Failure> {
        let before = self.store.len();
        let removed = self
            .store
            .remove(&key.0, now)
            .map_err(|error| Failure::of_store(&self.name, &error))?;
        if self.store.len() < before && key.database() != 0 {
            let count = &mut self.others[usize::from(key.database())];
            *count = count.saturating_sub(1);
            self.try_to_keep_counts(now);
        }
        let Some(position) = removed else {
            // A crash must not bring back what a client was told is absent, as in `read`.
            if self.store.sync() == Sync::Always && self.removed > self.store.durable_up_to() {
                self.written = self.written.max(self.removed);
            }
            return Ok(false);
        };
        self.written = self.written.max(position);
        self.removed = position;
        self.counters.changes += 1;
        self.tracking.changed(key.key(), client);
        Ok(true)
    }

    /// Writes the counts. On a full disk they stay in memory: after a crash they are recounted
    /// anyway.
    fn try_to_keep_counts(&mut self, now: Duration) {
        let _ = self.keep_counts(now);
    }

    fn keep_counts(&mut self, now: Duration) -> Result<(), Failure> {
        let written = self
            .store
            .write(COUNTS, &counts_value(self.others), None, now)
            .map_err(|error| Failure::of_store(&self.name, &error))?;
        self.written = written.position;
        Ok(())
    }

    /// Keys of a database.
    pub(crate) fn keys(&mut self, database: u8, now: Duration) -> u64 {
        if database != 0 {
            return self.others[usize::from(database)];
        }
        let others: u64 = self.others.iter().sum();
        let counts = u64::from(self.store.read(COUNTS, now).is_some());
        self.store.len().saturating_sub(others + counts)
    }

    /// Whether all keys of this shard are in database 0. Valid only if [`Self::load_counts`] has
    /// returned `Ready`.
    pub(crate) fn only_database_0(&mut self, now: Duration) -> bool {
        self.store.read(COUNTS, now).is_none()
    }

    /// Whether [`Self::keys`] is exact, and not an estimate.
    pub(crate) fn counts_exactly(&mut self, now: Duration) -> bool {
        self.others_exact || self.only_database_0(now)
    }

    /// Does a portion of the store's periodic work; true while more is due.
    pub fn step(&mut self, now: Duration) -> bool {
        self.noticing_losses(|store| store.step(now))
    }

    /// Returns the next request of the store to its device.
    pub fn poll_device(&mut self, now: Duration) -> Option<DeviceCommand> {
        self.noticing_losses(|store| store.poll_device(now))
    }

    /// Runs `work` and notes whether entries disappeared: the store drops expired entries by
    /// location, without knowing their database.
    fn noticing_losses<T>(&mut self, work: impl FnOnce(&mut Elastic) -> T) -> T {
        let before = self.store.len();
        let done = work(&mut self.store);
        self.others_exact &= self.store.len() == before;
        done
    }

    /// Drops everything in every database.
    pub(crate) fn clear(&mut self, now: Duration) -> Result<(), Failure> {
        self.written =
            self.store.clear(now).map_err(|error| Failure::of_store(&self.name, &error))?;
        self.removed = self.written;
        self.others = Default::default();
        (self.others_known, self.others_exact) = (true, true);
        self.deadlines.clear();
        self.tracking.flushed();
        Ok(())
    }

    /// Returns about `count` stored keys from `cursor` on, the next cursor, and the number of
    /// places that could not be read; or the tickets to wait for while the disk is read.
    pub(crate) fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        client: u64,
        now: Duration,
    ) -> Result<(u64, Names, u64), Vec<Ticket>> {
        match self.store.scan(cursor, count, now) {
            Scan::Ready { cursor, keys, passed_over } => Ok((cursor, keys, passed_over)),
            Scan::Pending(tickets) => {
                self.waiting.extend(tickets.iter().map(|&ticket| (ticket, client)));
                Err(tickets)
            }
        }
    }

    /// A stored key drawn by `random`.
    pub(crate) fn random_key(
        &mut self,
        random: u64,
        client: u64,
        now: Duration,
    ) -> Result<Option<Box<[u8]>>, Vec<Ticket>> {
        match self.store.random_key(random, now) {
            RandomKey::Ready(key) => Ok(key),
            RandomKey::Pending(ticket) => {
                self.waiting.insert(ticket, client);
                Err(vec![ticket])
            }
        }
    }

    /// Finds expired keys; true while there are more.
    pub fn expire(&mut self, now: Duration) -> bool {
        for _ in 0..EXPIRED_AT_ONCE {
            if self.deadlines.first().is_none_or(|(at, _)| *at > now) {
                return false;
            }
            let Some((_, key)) = self.deadlines.pop_first() else { return false };
            let before = self.store.len();
            // Loading the key makes the store drop it; a key that is on disk is noticed later.
            if let Load::Pending(ticket) = self.store.load(&key, now) {
                self.store.release(ticket);
            } else if self.store.len() < before {
                self.expired(key[0], &key[1..]);
            }
        }
        true
    }

    /// Keys known to end.
    pub(crate) fn ending(&self, database: u8) -> u64 {
        self.deadlines.iter().filter(|(_, key)| key[0] == database).count() as u64
    }
}
