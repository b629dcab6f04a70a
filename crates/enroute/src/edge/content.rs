//! Storage of content: in memory, in locked shards, and optionally in a database that is larger
//! than memory. A read returns a copy, for which memory must be available.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use content::Record;
use hyper::body::Bytes;
use parking_lot::Mutex;
use store::Memory;
use tracing::{debug, warn};

use super::{Database, room::Room};
use crate::memory;

/// Limits of content.
#[derive(Debug, Clone, Copy)]
pub struct ContentLimits {
    /// Memory at most: bodies, headers, keys and bookkeeping.
    pub bytes_max: usize,
    /// Longest record: a body and its headers.
    pub record_bytes_max: usize,
}

/// A lock is held while a record is copied; with this many, two cores seldom meet.
const SHARDS: usize = 8;
/// Maximum length of a key (a target and the values it varies by); longer ones are not stored.
const KEY_BYTES_MAX: usize = 8 << 10;

/// Items looked at in one step of becoming smaller, under a shard's lock.
const STEP_ITEMS: usize = 256;

/// Counters of changes; targets that share one cost each other a fill now and then.
const CHANGES: usize = 1 << 12;

/// Stored content.
pub struct Content {
    shards: Vec<Mutex<Memory>>,
    /// Configured memory.
    bytes_max: AtomicUsize,
    /// The part of it that the memory budget allows.
    granted_bytes: AtomicUsize,
    changes: Box<[AtomicU64]>,
    hasher: RandomState,
    database: Option<Database>,
    /// When the edge began, since the Unix epoch: the store counts from there.
    start: Duration,
}

/// An entry exists, but there is no memory for a copy of it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

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
        let [bytes_max, granted_bytes] = [limits.bytes_max, usize::MAX].map(AtomicUsize::new);
        let start = super::now();
        Self { shards, bytes_max, granted_bytes, changes, database, hasher, start }
    }

    /// What is stored under `key`.
    ///
    /// # Errors
    /// An entry exists, or may exist, and `room` has no memory for it.
    pub(super) async fn lookup(
        &self,
        key: &[u8],
        room: &Arc<Room>,
        now: Duration,
    ) -> Result<Option<Record>, NoRoom> {
        if let Some(bytes) = self.in_memory(key, room, now)? {
            return Ok(decode(&bytes));
        }
        let Some(database) = &self.database else { return Ok(None) };
        if room.is_tight() {
            return Err(NoRoom);
        }
        let changes = self.changes(key);
        let Some((value, kept_for)) = database.lookup(key).await else { return Ok(None) };
        self.put(key, &value, kept_for, now);
        if self.changes(key) != changes {
            // It was being read when it was dropped.
            self.remove(key);
            return Ok(None);
        }
        let counted = room.whole(value.len()).ok_or(NoRoom)?;
        Ok(decode(&counted.keeps(value)))
    }

    /// Number of invalidations of `key`. A response requested before a change of this number must
    /// not be stored.
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
        room: &Arc<Room>,
        now: Duration,
    ) {
        let bytes = record.encode();
        self.put(key, &bytes, kept_for, now);
        let Some(database) = &self.database else { return };
        // A copy that the database does not have is a miss there.
        if let Some(counted) = room.whole(bytes.len()) {
            database.store(key, counted.keeps(bytes), kept_for).await;
        }
    }

    /// Drops the entry of `key`.
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

    /// The memory that content may take.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    /// Changes the memory that content may take.
    pub(super) fn resize(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Relaxed);
        self.share_out();
    }

    fn share_out(&self) {
        let granted = self.granted_bytes.load(Relaxed);
        let each = self.bytes_max.load(Relaxed).min(granted) / self.shards.len();
        self.shards.iter().for_each(|shard| shard.lock().resize(usize::MAX, each));
    }

    /// A step of what becoming smaller takes; true while there is more to do.
    pub(super) fn advance(&self, now: Duration) -> bool {
        let now = now.saturating_sub(self.start);
        let step = |more, shard: &Mutex<Memory>| shard.lock().step(STEP_ITEMS, now) || more;
        self.shards.iter().fold(false, step)
    }

    pub(super) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        for shard in &self.shards {
            let shard = shard.lock();
            let stats = shard.stats();
            sizes.items += stats.items;
            sizes.bytes += stats.accounted_bytes;
            sizes.evictions += stats.evictions;
        }
        sizes.bytes_max = self.bytes_max();
        sizes
    }

    fn in_memory(
        &self,
        key: &[u8],
        room: &Arc<Room>,
        now: Duration,
    ) -> Result<Option<Bytes>, NoRoom> {
        let (hash, shard) = self.shard(key);
        let now = now.saturating_sub(self.start);
        let mut shard = shard.lock();
        let Some(value) = shard.lookup(hash, key, now) else { return Ok(None) };
        let counted = room.whole(value.len()).ok_or(NoRoom)?;
        Ok(Some(counted.keeps(value.to_vec())))
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

impl memory::Stored for Content {
    fn wanted(&self) -> u64 {
        self.bytes_max() as u64
    }

    fn held(&self) -> u64 {
        self.sizes().bytes as u64
    }

    fn grant(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let before = self.granted_bytes.swap(bytes, Relaxed);
        let wanted = self.bytes_max.load(Relaxed);
        // What is more than was asked for changes nothing.
        if bytes.min(wanted) != before.min(wanted) {
            self.share_out();
        }
    }
}

fn decode(bytes: &Bytes) -> Option<Record> {
    let record = Record::decode(bytes);
    record
        .inspect_err(|error| warn!("a stored response cannot be read and is not used: {error}"))
        .ok()
}
