//! Records in memory, in locked shards, within a limit that can change at any moment. A record is
//! copied out under its shard's lock.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use store::{Memory, Refused};

use crate::Record;

/// Limits of storage.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory at most: bodies, headers, keys and bookkeeping.
    pub bytes_max: usize,
    /// Longest record: a body and its headers.
    pub record_bytes_max: usize,
}

/// A lock is held while a record is copied; with this many, two cores seldom meet.
const SHARDS: usize = 8;
/// Maximum length of a key (a target and the values it varies by); longer ones are not stored.
const KEY_BYTES_MAX: usize = 8 << 10;

/// Items examined in one step of shrinking, under a shard's lock.
const STEP_ITEMS: usize = 256;

/// Counters of changes; targets that share one cost each other a fill now and then.
const CHANGES: usize = 1 << 12;

/// Stored records, by their keys.
pub struct Storage {
    shards: Vec<Mutex<Memory>>,
    /// Configured memory.
    bytes_max: AtomicUsize,
    /// The part of it that the memory budget allows.
    granted_bytes: AtomicUsize,
    changes: Box<[AtomicU64]>,
    /// Milliseconds since the Unix epoch.
    cleared_at: AtomicU64,
    hasher: RandomState,
    /// When it was made: the store counts from there.
    start: Duration,
}

/// Sizes and counters of the memory, all shards together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Records held.
    pub items: usize,
    /// Memory that they take.
    pub bytes: usize,
    /// Memory at most.
    pub bytes_max: usize,
    /// Records that were evicted.
    pub evictions: u64,
}

impl Storage {
    /// Nothing stored; `hasher` is keyed so that clients cannot choose keys that collide.
    #[must_use]
    pub fn new(limits: Limits, hasher: RandomState, now: Duration) -> Self {
        // A shard must have room for several of the longest.
        let shards = (limits.bytes_max / (4 * limits.record_bytes_max).max(1)).clamp(1, SHARDS);
        let config = store::Config {
            bytes_max: limits.bytes_max / shards,
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: limits.record_bytes_max,
            ..store::Config::default()
        };
        let shard = |number: usize| Mutex::new(Memory::new(config, hasher.hash_one(number)));
        let shards = (0..shards).map(shard).collect();
        let changes = (0..CHANGES).map(|_| AtomicU64::new(0)).collect();
        let [bytes_max, granted_bytes] = [limits.bytes_max, usize::MAX].map(AtomicUsize::new);
        let cleared_at = AtomicU64::new(0);
        Self { shards, bytes_max, granted_bytes, changes, cleared_at, hasher, start: now }
    }

    /// Returns the result of `copy` for the record under `key`, if there is one. Its shard is
    /// locked while `copy` runs.
    #[inline]
    pub fn lookup<T>(&self, key: &[u8], copy: impl FnOnce(&[u8]) -> T, now: Duration) -> Option<T> {
        let (hash, shard) = self.shard(key);
        let now = now.saturating_sub(self.start);
        shard.lock().lookup(hash, key, now).map(copy)
    }

    /// Stores a record for at most `kept_for`.
    ///
    /// # Errors
    /// It does not fit; then nothing is stored under `key` any more.
    pub fn insert(
        &self,
        key: &[u8],
        record: &[u8],
        kept_for: Duration,
        now: Duration,
    ) -> Result<(), Refused> {
        let (hash, shard) = self.shard(key);
        let now = now.saturating_sub(self.start);
        shard.lock().insert(hash, key, record, Some(now + kept_for), now).map(drop)
    }

    /// Number of invalidations of `key`. A response requested before a change of this number must
    /// not be stored.
    #[must_use]
    pub fn changes(&self, key: &[u8]) -> u64 {
        self.changes_of(key).load(SeqCst)
    }

    fn changes_of(&self, key: &[u8]) -> &AtomicU64 {
        &self.changes[self.hasher.hash_one(key) as usize % CHANGES]
    }

    /// Whether `record`, kept elsewhere, is from before the last [`Self::clear`].
    #[must_use]
    pub fn was_cleared(&self, record: &[u8]) -> bool {
        Record::is_from_before(record, Duration::from_millis(self.cleared_at.load(SeqCst)))
    }

    /// Drops the record of `key`, and counts that as an invalidation.
    pub fn invalidate(&self, key: &[u8]) {
        self.changes_of(key).fetch_add(1, SeqCst);
        self.remove(key);
    }

    /// Drops the record of `key`.
    pub fn remove(&self, key: &[u8]) {
        let (hash, shard) = self.shard(key);
        shard.lock().remove(hash, key);
    }

    /// Drops everything, and counts that as an invalidation of every key.
    pub fn clear(&self, now: Duration) {
        self.cleared_at.store(now.as_millis() as u64, SeqCst);
        for changes in &self.changes {
            changes.fetch_add(1, SeqCst);
        }
        self.shards.iter().for_each(|shard| shard.lock().clear());
    }

    /// The configured memory.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    /// Changes the configured memory.
    pub fn resize(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Relaxed);
        self.share_out();
    }

    /// Allows this part of the configured memory.
    pub fn grant(&self, bytes: usize) {
        let before = self.granted_bytes.swap(bytes, Relaxed);
        let wanted = self.bytes_max.load(Relaxed);
        // What is more than was asked for changes nothing.
        if bytes.min(wanted) != before.min(wanted) {
            self.share_out();
        }
    }

    fn share_out(&self) {
        let granted = self.granted_bytes.load(Relaxed);
        let each = self.bytes_max.load(Relaxed).min(granted) / self.shards.len();
        self.shards.iter().for_each(|shard| shard.lock().resize(usize::MAX, each));
    }

    /// One step of shrinking; true while there is more to do.
    pub fn advance(&self, now: Duration) -> bool {
        let now = now.saturating_sub(self.start);
        let step = |more, shard: &Mutex<Memory>| shard.lock().step(STEP_ITEMS, now) || more;
        self.shards.iter().fold(false, step)
    }

    /// Sizes and counters.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes { bytes_max: self.bytes_max(), ..Sizes::default() };
        for shard in &self.shards {
            let shard = shard.lock();
            let stats = shard.stats();
            sizes.items += stats.items;
            sizes.bytes += stats.accounted_bytes;
            sizes.evictions += stats.evictions;
        }
        sizes
    }

    fn shard(&self, key: &[u8]) -> (u64, &Mutex<Memory>) {
        let hash = self.hasher.hash_one(key);
        (hash, &self.shards[(hash >> 32) as usize % self.shards.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn storage() -> Storage {
        let limits = Limits { bytes_max: 1 << 20, record_bytes_max: 1 << 10 };
        Storage::new(limits, RandomState::new(), NOW)
    }

    #[test]
    fn a_record_is_copied_until_its_time_is_over_or_it_is_invalidated() {
        let storage = storage();
        let found = |key: &[u8], now| storage.lookup(key, <[u8]>::to_vec, now);
        let kept_for = Duration::from_secs(5);
        for key in [b"a", b"b"] {
            assert_eq!(storage.insert(key, b"record", kept_for, NOW), Ok(()));
        }
        assert_eq!(found(b"a", NOW).as_deref(), Some(&b"record"[..]));
        assert_eq!(found(b"a", NOW + kept_for * 2), None);
        let changes = storage.changes(b"b");
        storage.remove(b"none");
        assert_eq!(storage.changes(b"b"), changes);
        storage.invalidate(b"b");
        assert_eq!((found(b"b", NOW), storage.changes(b"b")), (None, changes + 1));
        assert!(storage.insert(b"c", &[0; 2 << 10], kept_for, NOW).is_err());
    }

    #[test]
    fn memory_is_what_was_configured_or_the_part_that_is_granted() {
        let storage = storage();
        for number in 0..2_000_u32 {
            let inserted =
                storage.insert(&number.to_le_bytes(), &[7; 400], Duration::from_secs(60), NOW);
            assert_eq!(inserted, Ok(()));
        }
        storage.grant(256 << 10);
        while storage.advance(NOW) {}
        let granted = storage.sizes();
        assert!(granted.bytes <= 256 << 10 && granted.bytes_max == 1 << 20, "{granted:?}");
        assert!(granted.items > 0 && granted.evictions > 0, "{granted:?}");
        storage.clear(NOW);
        assert_eq!(storage.sizes().items, 0);
    }
}
