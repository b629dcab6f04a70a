//! The memory tier, composed of index, log and policy.

mod room;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use room::MARGIN_BYTES;

use crate::config::Config;
use crate::error::Refused;
use crate::index::Index;
use crate::item::{Item, Key, Location};
use crate::log::Log;
use crate::mapping::Collapse;
use crate::replacement::{Policy, policy};
use crate::retired::Retired;
use crate::stats::Stats;

/// The result of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert {
    /// An older value of the same key was replaced.
    pub replaced: bool,
    /// Items evicted to make room.
    pub evicted: usize,
}

/// An item that was read without counting as a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// Time at which it expires; `None` if never.
    pub expires_at: Option<Duration>,
}

/// Items in memory, bounded by number and by bytes.
///
/// Every call takes the caller's 64-bit `hash` of the key, always the same for the same key.
/// `now` is the time since start.
pub struct Memory {
    config: Config,
    seed: u64,
    index: Index,
    log: Log,
    policy: Box<dyn Policy<Log>>,
    /// The present limits: those of `config`, or higher ones while it shrinks.
    items_limit: usize,
    bytes_limit: usize,
    retired: Retired,
    /// True if something may have been stored since the last [`Memory::clear`].
    used: bool,
    stats: Stats,
}

impl Memory {
    /// Maximum resident memory beyond [`Stats::accounted_bytes`]: segments being filled or emptied,
    /// and fixed tables.
    pub const BASE_BYTES: usize = Log::UNCHARGED_BYTES_MAX + (64 << 10);

    /// An empty memory tier. It reserves addresses (no memory) for [`Config::BYTES_MAX`].
    ///
    /// `seed` is mixed into the hashes.
    ///
    /// # Panics
    /// When the system refuses the addresses (`ulimit -v`, or `vm.overcommit_memory` = 2).
    pub fn new(config: Config, seed: u64) -> Self {
        let bytes_limit = config.bytes_max.min(Config::BYTES_MAX);
        Self {
            seed,
            index: Index::new(),
            log: Log::new(),
            policy: policy(config.replacement),
            items_limit: config.items_max,
            bytes_limit,
            retired: Retired::default(),
            used: false,
            stats: Stats::default(),
            config: Config { bytes_max: bytes_limit, ..config },
        }
    }

    /// The value stored under `key`, counted as a use. An expired item is a miss, and is removed.
    pub fn lookup<'k>(
        &mut self,
        hash: u64,
        key: impl Into<Key<'k>>,
        now: Duration,
    ) -> Option<&[u8]> {
        let hash = self.fold(hash);
        let Some(location) = self.find(hash, key.into()) else {
            self.stats.misses += 1;
            return None;
        };
        if is_expired(&self.log.item(location), now) {
            self.stats.misses += 1;
            self.expire(location);
            return None;
        }
        self.stats.hits += 1;
        self.policy.on_hit(&mut self.log, location);
        Some(self.log.item(location).value)
    }

    /// The item stored under `key`, counted as a use even if it has expired. Read it by
    /// [`Memory::value_at`] before any other call.
    pub(crate) fn find_used(&mut self, hash: u64, key: &[u8]) -> Option<Location> {
        let location = self.find(self.fold(hash), key.into())?;
        self.policy.on_hit(&mut self.log, location);
        Some(location)
    }

    /// Prefetches the index bucket of this hash. A lookup of many keys at once calls this for each,
    /// then [`Memory::prefetch_item`] for each, so that the cache misses overlap.
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch(self.fold(hash));
    }

    /// Prefetches the item that probably has this hash, after [`Self::prefetch`].
    pub fn prefetch_item(&self, hash: u64) {
        if let Some(location) = self.index.guess(self.fold(hash)) {
            self.log.prefetch(location, self.log.live() / self.index.len().max(1));
        }
    }

    /// The next part of this memory that is full and in ordinary pages: [`Collapse::run`] makes
    /// lookups in it faster. Call it periodically; run it without a lock on this memory.
    pub fn next_full(&mut self) -> Option<Collapse> {
        self.log.next_full().or_else(|| self.index.next_full())
    }

    /// The value of an item found just now.
    pub(crate) fn value_at(&self, location: Location) -> &[u8] {
        self.log.item(location).value
    }

    /// Overwrites the value of an item found just now by one in two parts; returns false if the
    /// lengths differ.
    pub(crate) fn overwrite_at(&mut self, location: Location, parts: [&[u8]; 2]) -> bool {
        self.log.overwrite_value(location, parts)
    }

    /// The value stored under `key` and not expired, without counting as a use.
    pub fn peek<'k>(&self, hash: u64, key: impl Into<Key<'k>>, now: Duration) -> Option<Peek<'_>> {
        let location = self.find(self.fold(hash), key.into())?;
        let item = self.log.item(location);
        let peek = Peek { value: item.value, expires_at: item.expires_at };
        (!is_expired(&item, now)).then_some(peek)
    }

    /// The key of an item with this hash for which `is_it` returns true, without counting as a use.
    pub(crate) fn key_where(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
        let hash = self.fold(hash);
        let location =
            self.index.find(hash, |location| is_it(self.log.item(location).key.bytes))?;
        Some(self.log.item(location).key.bytes)
    }

    /// Stores `value` under `key` in place of any older value, until `expires_at` (without limit if
    /// `None`), and evicts as needed. Replacing a value counts as a use of the item.
    ///
    /// # Errors
    /// When nothing was stored; then nothing is stored under `key` any more.
    pub fn insert<'k>(
        &mut self,
        hash: u64,
        key: impl Into<Key<'k>>,
        value: &[u8],
        expires_at: Option<Duration>,
        now: Duration,
    ) -> Result<Insert, Refused> {
        let key = key.into();
        let item = Item { hash: self.fold(hash), key, value, expires_at };
        let inserted = self.check(&item).and_then(|()| self.store(&item, now));
        match &inserted {
            Ok(insert) if insert.replaced => self.stats.replaces += 1,
            Ok(_) => self.stats.inserts += 1,
            Err(_) => {
                self.remove(hash, key);
                self.stats.refusals += 1;
            }
        }
        self.tidy(item.shape().bytes(), now);
        inserted
    }

    /// Removes the value of `key`; true if there was one.
    pub fn remove<'k>(&mut self, hash: u64, key: impl Into<Key<'k>>) -> bool {
        let found = self.find(self.fold(hash), key.into());
        if let Some(location) = found {
            self.drop_item(location);
            self.stats.removals += 1;
        }
        found.is_some()
    }

    /// Removes all values with `hash`, regardless of their keys. Values that share 32 mixed bits of
    /// the hash by chance are removed too.
    pub fn remove_hash(&mut self, hash: u64) {
        let hash = self.fold(hash);
        while let Some(location) =
            self.index.find(hash, |location| self.log.header(location).hash == hash)
        {
            self.drop_item(location);
            self.stats.removals += 1;
        }
    }

    /// Removes everything in constant time; does nothing if nothing was stored since the last call.
    /// Counters are kept. The memory is released by [`Memory::step`] and, in small parts, by every
    /// insert, and is accounted for until then.
    pub fn clear(&mut self) {
        if !std::mem::take(&mut self.used) {
            return;
        }
        self.stats.removals += self.index.len() as u64;
        let index = std::mem::replace(&mut self.index, Index::new());
        let log = std::mem::replace(&mut self.log, Log::new());
        self.policy = policy(self.config.replacement);
        // A small amount is released at once, so that repeated clearing holds no addresses.
        if log.charge() > RETIRED_BYTES_MIN {
            for (mapping, end, resident_bytes) in [index.retire(), log.retire()] {
                self.retired.add(mapping, end, resident_bytes);
            }
        }
    }

    /// Sets the limits. Higher limits take effect at once. Lower ones are reached by
    /// [`Memory::step`] and, in small steps, by every insert; until then the present size is the
    /// limit.
    pub fn resize(&mut self, items_max: usize, bytes_max: usize) {
        self.config.items_max = items_max;
        self.config.bytes_max = bytes_max.min(Config::BYTES_MAX);
        self.lower_limits();
    }

    /// Shrinks, compacts and expires up to the work of `work` items, plus at most one segment (256
    /// KiB); returns true while there is more to do.
    pub fn step(&mut self, work: usize, now: Duration) -> bool {
        self.upkeep(work, now)
    }

    /// Items held.
    pub(crate) fn items(&self) -> usize {
        self.index.len()
    }

    /// The limits asked for last, and the policy.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The limits of now, of items and of bytes: those asked for last, or higher ones while it
    /// shrinks to them. It never holds more.
    pub fn limits(&self) -> (usize, usize) {
        (self.items_limit, self.bytes_limit)
    }

    /// Counters and sizes.
    pub fn stats(&self) -> Stats {
        Stats {
            items: self.index.len(),
            live_bytes: self.log.live(),
            accounted_bytes: self.accounted_bytes(),
            index_bytes: self.index.bytes(),
            policy_bytes: self.policy.bytes(),
            ..self.stats.clone()
        }
    }

    /// Mixes the hash to 32 bits, so that a weak hash of the caller is sufficient (the finalizer of
    /// MurmurHash3).
    fn fold(&self, hash: u64) -> u32 {
        let mixed = (hash ^ self.seed).wrapping_mul(0xff51_afd7_ed55_8ccd);
        ((mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 32) as u32
    }

    fn find(&self, hash: u32, key: Key<'_>) -> Option<Location> {
        self.index.find(hash, |location| self.log.has_key(location, key))
    }

    fn check(&self, item: &Item<'_>) -> Result<(), Refused> {
        let Config { key_bytes_max, value_bytes_max, .. } = self.config;
        let value_bytes_max = value_bytes_max.min(VALUE_BYTES_LIMIT);
        if self.config.items_max == 0 {
            return Err(Refused::Off);
        }
        if item.key.len() > key_bytes_max.min(VALUE_BYTES_LIMIT) {
            return Err(Refused::KeyTooLong { got: item.key.len(), limit: key_bytes_max });
        }
        if item.value.len() > value_bytes_max {
            return Err(Refused::ValueTooLong { got: item.value.len(), limit: value_bytes_max });
        }
        Ok(())
    }

    fn store(&mut self, item: &Item<'_>, now: Duration) -> Result<Insert, Refused> {
        self.used = true;
        let mut held = self.find(item.hash, item.key);
        if let Some(old) = held.filter(|&old| is_expired(&self.log.item(old), now)) {
            self.expire(old);
            held = None;
        }
        if let Some(old) = held.filter(|&old| self.log.shape(old).fits_in_place_of(item.shape())) {
            self.log.overwrite(old, item);
            self.policy.on_hit(&mut self.log, old);
            return Ok(Insert { replaced: true, evicted: 0 });
        }
        if held.is_none() {
            self.policy.set_capacity(self.capacity(), self.bytes_limit);
            self.policy.on_incoming(item.hash);
            if self.is_nearly_full(item.shape().bytes()) && !self.policy.admits(item.hash) {
                return Err(Refused::NotAdmitted);
            }
        }
        let evicted = self.make_room_for_bytes(item.shape().bytes(), now)?;
        // Making room may have moved or evicted the old value.
        match self.find(item.hash, item.key) {
            Some(old) => self.supersede(old, item, evicted, now),
            None => self.add(item, evicted, false, now),
        }
    }

    /// Stores a new item for which there are bytes.
    fn add(
        &mut self,
        item: &Item<'_>,
        evicted: usize,
        replaced: bool,
        now: Duration,
    ) -> Result<Insert, Refused> {
        let evicted = evicted + self.make_room_for_one();
        let (location, more) = self.append(item, now)?;
        self.index.insert(item.hash, location, |at| self.log.header(at).hash);
        self.policy.on_insert(&mut self.log, location);
        Ok(Insert { replaced, evicted: evicted + more })
    }

    /// Stores a value of other length in place of `old`, which keeps its rank with the policy.
    fn supersede(
        &mut self,
        old: Location,
        item: &Item<'_>,
        evicted: usize,
        now: Duration,
    ) -> Result<Insert, Refused> {
        let Some(location) = self.log.append(item) else {
            self.drop_item(old);
            return self.add(item, evicted, true, now);
        };
        self.log.inherit(old, location);
        self.index.replace(item.hash, old, location);
        self.policy.on_move(&mut self.log, old, location);
        self.log.kill(old);
        self.policy.on_hit(&mut self.log, location);
        Ok(Insert { replaced: true, evicted })
    }

    fn expire(&mut self, location: Location) {
        self.stats.expirations += 1;
        self.drop_item(location);
    }

    /// Removes an item from index, log and policy.
    fn drop_item(&mut self, location: Location) {
        self.policy.on_remove(&mut self.log, location);
        self.forget(location);
    }

    /// Removes an item from index and log; the policy has already removed it.
    fn forget(&mut self, location: Location) {
        let hash = self.log.header(location).hash;
        self.index.remove(hash, location, |at| self.log.header(at).hash);
        self.log.kill(location);
    }
}

/// Minimum memory of a cleared tier that is released in portions instead of at once.
const RETIRED_BYTES_MIN: usize = 1 << 20;

/// Maximum length of a value: lengths are stored in 32 bits, with room for headers and rounding.
const VALUE_BYTES_LIMIT: usize = 1 << 31;

fn is_expired(item: &Item<'_>, now: Duration) -> bool {
    item.expires_at.is_some_and(|at| at <= now)
}
