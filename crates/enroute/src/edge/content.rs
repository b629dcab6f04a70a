//! Where content is kept: in memory, in shards behind locks, and behind it, if there is one, in a
//! database that holds more than memory does.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use content::Record;
use hyper::body::Bytes;
use parking_lot::Mutex;
use store::Memory;
use tracing::{debug, warn};

use super::Database;

/// What content may take.
#[derive(Debug, Clone, Copy)]
pub struct ContentLimits {
    /// Memory at most: bodies, headers, keys and bookkeeping.
    pub bytes_max: usize,
    /// Longest record: a body and its headers.
    pub record_bytes_max: usize,
}

/// A lock is held while a record is copied; with this many, two cores seldom meet.
const SHARDS: usize = 8;
/// A key is a target and the values it varies by; what is longer is not stored.
const KEY_BYTES_MAX: usize = 8 << 10;

/// Counters of changes; targets that share one cost each other a fill now and then.
const CHANGES: usize = 1 << 12;

/// Stored content.
pub struct Content {
    shards: Vec<Mutex<Memory>>,
    changes: Box<[AtomicU64]>,
    hasher: RandomState,
    database: Option<Database>,
    /// When the edge began, since the Unix epoch: the store counts from there.
    start: Duration,
}

/// Sizes and counters of the memory, all shards together.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) items: usize,
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    pub(super) evictions: u64,
}

impl Content {
    /// Room for content, in memory and in `database`.
    #[must_use]
    pub fn new(limits: ContentLimits, database: Option<Database>) -> Self {
        // A shard must have room for several of the longest.
        let shards = (limits.bytes_max / (4 * limits.record_bytes_max).max(1)).clamp(1, SHARDS);
        let config = store::Config {
            bytes_max: limits.bytes_max / shards,
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: limits.record_bytes_max,
            ..store::Config::default()
        };
        let hasher = RandomState::new();
        let shard = |number: usize| Mutex::new(Memory::new(config, hasher.hash_one(number)));
        let shards = (0..shards).map(shard).collect();
        let changes = (0..CHANGES).map(|_| AtomicU64::new(0)).collect();
        Self { shards, changes, database, hasher, start: super::now() }
    }

    /// What is stored under `key`.
    pub(super) async fn lookup(&self, key: &[u8], now: Duration) -> Option<Record> {
        if let Some(bytes) = self.in_memory(key, now) {
            return decode(&bytes);
        }
        let changes = self.changes(key);
        let (bytes, kept_for) = self.database.as_ref()?.lookup(key).await?;
        self.put(key, &bytes, kept_for, now);
        if self.changes(key) != changes {
            // It was on its way when it was forgotten.
            self.remove(key);
            return None;
        }
        decode(&bytes)
    }

    /// How often what is under `key` was forgotten. What was asked for before is not to be stored if
    /// this is no longer what it was then.
    pub(super) fn changes(&self, key: &[u8]) -> u64 {
        self.changes_of(key).load(SeqCst)
    }

    fn changes_of(&self, key: &[u8]) -> &AtomicU64 {
        &self.changes[self.hasher.hash_one(key) as usize % CHANGES]
    }

    /// Stores `record` for at most `kept_for`.
    pub(super) async fn store(
        &self,
        key: &[u8],
        record: &Record,
        kept_for: Duration,
        now: Duration,
    ) {
        let bytes = Bytes::from(record.encode());
        self.put(key, &bytes, kept_for, now);
        if let Some(database) = &self.database {
            database.store(key, bytes, kept_for).await;
        }
    }

    /// Forgets what is under `key`.
    pub(super) async fn forget(&self, key: &[u8]) {
        self.changes_of(key).fetch_add(1, SeqCst);
        self.remove(key);
        if let Some(database) = &self.database {
            database.forget(key).await;
        }
    }

    fn remove(&self, key: &[u8]) {
        let (hash, shard) = self.shard(key);
        shard.lock().remove(hash, key);
    }

    /// Forgets everything in memory.
    pub(super) fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.lock().clear());
    }

    /// Changes the memory that content may take.
    pub(super) fn resize(&self, bytes_max: usize) {
        let each = bytes_max / self.shards.len();
        self.shards.iter().for_each(|shard| shard.lock().resize(usize::MAX, each));
    }

    pub(super) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        for shard in &self.shards {
            let shard = shard.lock();
            let stats = shard.stats();
            sizes.items += stats.items;
            sizes.bytes += stats.accounted_bytes;
            sizes.bytes_max += shard.config().bytes_max;
            sizes.evictions += stats.evictions;
        }
        sizes
    }

    fn in_memory(&self, key: &[u8], now: Duration) -> Option<Bytes> {
        let (hash, shard) = self.shard(key);
        let now = now.saturating_sub(self.start);
        shard.lock().lookup(hash, key, now).map(Bytes::copy_from_slice)
    }

    fn put(&self, key: &[u8], bytes: &[u8], kept_for: Duration, now: Duration) {
        let (hash, shard) = self.shard(key);
        let now = now.saturating_sub(self.start);
        if let Err(refused) = shard.lock().insert(hash, key, bytes, Some(now + kept_for), now) {
            debug!("a response of {} bytes is not stored: {refused}", bytes.len());
        }
    }

    fn shard(&self, key: &[u8]) -> (u64, &Mutex<Memory>) {
        let hash = self.hasher.hash_one(key);
        (hash, &self.shards[(hash >> 32) as usize % self.shards.len()])
    }
}

fn decode(bytes: &Bytes) -> Option<Record> {
    let record = Record::decode(bytes);
    record.inspect_err(|error| warn!("a stored response is not used: {error}")).ok()
}
