//! Storage shared by the workers: shards of [`MemoryStorage`], each behind a lock.
//!
//! A lock is held for one storage call, so for the copy of one value; the hash of the key selects
//! the shard, so two workers rarely use the same shard. Writes to more than a key visit every shard
//! before they are sent, as the lease contract requires.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::sync::Mutex;
use crate::{
    key::{Key, Sent},
    lease::{Character, Lease, Outcome, Ticket},
    stats::{NotFilled, Stats},
    storage::{
        Answer, Config, Given, MemoryStorage, Question, Storage, Write,
        observe::{Foreseen, Observed, Observer},
    },
};

/// All of storage.
pub struct Shards {
    shards: Box<[Mutex<MemoryStorage>]>,
    observer: Option<Arc<Observer>>,
    /// Configured limits.
    limits: Mutex<StorageLimits>,
    quarantine: Duration,
    /// The part of its memory that it may use ([`Shards::grant`]).
    granted_bytes: AtomicUsize,
    /// It held more than [`PREFETCHED_BYTES_MIN`] at the last [`Shards::advance`].
    prefetches: AtomicBool,
}

/// Limits of all shards together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageLimits {
    /// Items at most; `usize::MAX` where memory alone is the bound.
    pub items_max: usize,
    /// Memory at most, in bytes.
    pub bytes_max: usize,
}

impl StorageLimits {
    /// The part of shard `index` of `count`. No shard is left without an item unless all are: its
    /// keys would never be stored.
    fn share(self, index: usize, count: usize) -> Self {
        let items = self.items_max / count + usize::from(index < self.items_max % count);
        Self { items_max: items.max(self.items_max.min(1)), bytes_max: self.bytes_max / count }
    }
}

/// Below this number of items one shard is used: every policy then behaves exactly as in its paper,
/// down to a capacity of ten. Above it, an uneven distribution of keys over shards costs a few per
/// cent of the capacity at most.
const ITEMS_FOR_SHARDS: usize = 16_384;
/// Below this memory one shard is used, because each shard fills and empties its own segments.
const BYTES_FOR_SHARDS: usize = 64 << 20;
/// Below this memory lookups find most of what they need in the processor's last-level cache, so
/// that prefetching costs more than it gains.
const PREFETCHED_BYTES_MIN: usize = 64 << 20;
/// Maximum number of shards: enough that two workers of a large machine rarely need the same lock.
const SHARDS_MAX: usize = 16;

impl Shards {
    /// Creates shards for `config`, whose limits apply to all of them together.
    pub fn new(config: &Config, seed: u64) -> Self {
        let memory = &config.memory;
        let large = memory.items_max >= ITEMS_FOR_SHARDS && memory.bytes_max >= BYTES_FOR_SHARDS;
        let count = if large { SHARDS_MAX } else { 1 };
        let limits = StorageLimits { items_max: memory.items_max, bytes_max: memory.bytes_max };
        let observer = Observer::of(config);
        let shard = |index: usize| {
            let mut each = config.clone();
            let share = limits.share(index, count);
            (each.memory.items_max, each.memory.bytes_max) = (share.items_max, share.bytes_max);
            let observer = observer.clone();
            Mutex::new(MemoryStorage::observed_by(observer, each, seed ^ index as u64))
        };
        let quarantine = config.quarantine;
        Self {
            shards: (0..count).map(shard).collect(),
            observer,
            limits: Mutex::new(limits),
            quarantine,
            granted_bytes: AtomicUsize::new(usize::MAX),
            prefetches: AtomicBool::new(false),
        }
    }

    /// Periodic maintenance; returns whether there is more to do at once.
    pub fn advance(&self, now: Duration) -> bool {
        let (mut more, mut bytes) = (false, 0);
        for shard in &self.shards {
            let mut locked = shard.lock();
            more |= locked.advance(now);
            bytes += locked.memory().accounted_bytes;
            let full = locked.next_full();
            drop(locked);
            if let Some(full) = full {
                full.run();
                more = true;
            }
        }
        self.prefetches.store(bytes > PREFETCHED_BYTES_MIN, Relaxed);
        more
    }

    /// Time for which a scope stays closed if the reply to its write never arrives.
    pub fn quarantine(&self) -> Duration {
        self.quarantine
    }

    /// Limits of all shards together.
    pub fn limits(&self) -> StorageLimits {
        *self.limits.lock()
    }

    /// Changes the limits of all shards together at run time by `change`; returns the new limits.
    pub fn resize(&self, change: impl FnOnce(&mut StorageLimits)) -> StorageLimits {
        // Held throughout, so that of two changes at once the later holds for every shard.
        let mut limits = self.limits.lock();
        change(&mut limits);
        self.share_out(&limits);
        *limits
    }

    /// Limits storage to `bytes` of memory, even if the configured limit is higher.
    pub fn grant(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let before = self.granted_bytes.load(Relaxed);
        let limits = self.limits.lock();
        self.granted_bytes.store(bytes, Relaxed);
        // A value above the configured limit changes nothing.
        if bytes.min(limits.bytes_max) != before.min(limits.bytes_max) {
            self.share_out(&limits);
        }
    }

    fn share_out(&self, limits: &StorageLimits) {
        let bytes_max = limits.bytes_max.min(self.granted_bytes.load(Relaxed));
        let (limits, count) = (StorageLimits { bytes_max, ..*limits }, self.shards.len());
        for (index, shard) in self.shards.iter().enumerate() {
            let share = limits.share(index, count);
            shard.lock().resize(share.items_max, share.bytes_max);
        }
    }

    /// Drops every stored answer, and what the reads under way would store.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    /// What observes reads, if they are only observed.
    pub fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }

    /// Memory statistics, summed over all shards.
    pub fn memory(&self) -> store::Stats {
        let mut sum = store::Stats::default();
        for shard in &self.shards {
            sum += shard.lock().memory();
        }
        sum
    }

    #[inline]
    pub(super) fn of(&self, hash: u64) -> &Mutex<MemoryStorage> {
        // The high bits: the index inside a shard uses the low ones.
        let index = (u128::from(hash) * self.shards.len() as u128) >> 64;
        &self.shards[index as usize]
    }
}

/// One worker's access to storage, with its own counters.
pub struct Handle {
    shards: Arc<Shards>,
    stats: Arc<Stats>,
    woken: Vec<Ticket>,
}

impl Handle {
    /// Creates the handle of one worker, which alone counts in `stats`.
    pub fn new(shards: Arc<Shards>, stats: Arc<Stats>) -> Self {
        Self { shards, stats, woken: Vec::new() }
    }

    /// Sessions to notify that the fill they waited for has ended.
    pub fn woken(&mut self) -> &mut Vec<Ticket> {
        &mut self.woken
    }

    fn with<T>(&mut self, hash: u64, act: impl FnOnce(&mut MemoryStorage) -> T) -> T {
        let mut shard = self.shards.of(hash).lock();
        let result = act(&mut shard);
        self.woken.append(shard.woken());
        result
    }
}

impl Storage for Handle {
    fn read(
        &mut self,
        question: Question<'_>,
        ticket: Option<Ticket>,
        now: Duration,
        hit: impl FnOnce(&[u8]),
    ) -> Answer {
        self.shards.of(question.key.hash).lock().read(question, ticket, now, hit)
    }

    fn prefetches(&self) -> bool {
        self.shards.prefetches.load(Relaxed)
    }

    fn prefetch(&self, hashes: &[u64]) {
        for &hash in hashes {
            self.shards.of(hash).lock().prefetch(hash);
        }
        for &hash in hashes {
            self.shards.of(hash).lock().prefetch_item(hash);
        }
    }

    fn fill(&mut self, lease: Lease, given: Given<'_>, now: Duration) -> Result<(), NotFilled> {
        self.with(given.key.hash, |shard| shard.fill(lease, given, now))
    }

    fn release(&mut self, lease: Lease) {
        self.with(lease.hash(), |shard| shard.release(lease));
    }

    fn lease(&mut self, key: Key<'_>) -> Option<Lease> {
        self.with(key.hash, |shard| shard.lease(key))
    }

    fn compare(
        &mut self,
        lease: Lease,
        question: Question<'_>,
        now: Duration,
        see: impl FnOnce(&[u8]),
    ) -> u64 {
        self.with(lease.hash(), |shard| shard.compare(lease, question, now, see))
    }

    fn learn(&mut self, lease: &Lease, character: Character) {
        self.with(lease.hash(), |shard| shard.learn(lease, character));
    }

    fn write_sent(&mut self, scope: Sent) -> Write {
        if let Sent::Key { hash, .. } = scope {
            return self.with(hash, |shard| shard.write_sent(scope));
        }
        let shards = Arc::clone(&self.shards);
        let mut sent = None;
        for shard in &shards.shards {
            let mut shard = shard.lock();
            sent = Some(shard.write_sent(scope));
            self.woken.append(shard.woken());
        }
        sent.expect("there is at least one shard")
    }

    fn write_settled(&mut self, write: Write, outcome: Outcome) {
        self.for_each_of(write, |shard, write| shard.write_settled(write, outcome));
    }

    fn write_settled_with(&mut self, write: Write, given: &[Given<'_>], now: Duration) {
        match write.scope {
            Sent::Key { hash, .. } => {
                self.with(hash, |shard| shard.write_settled_with(write, given, now));
            }
            _ => self.write_settled(write, Outcome::Applied),
        }
    }

    fn learn_by(&mut self, write: &Write, character: Character) {
        if let Sent::Key { hash, .. } = write.scope {
            self.with(hash, |shard| shard.learn_by(write, character));
        }
    }

    fn write_lost(&mut self, write: Write, now: Duration) {
        self.for_each_of(write, |shard, write| shard.write_lost(write, now));
    }

    fn observer(&self) -> Option<&Observer> {
        self.shards.observer()
    }

    fn observe(&mut self, observed: &Observed<'_>, now: Duration) -> Foreseen {
        self.with(observed.question.key.hash, |shard| shard.observe(observed, now))
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

impl Handle {
    /// Calls `act` for every shard the write was sent to.
    fn for_each_of(&mut self, write: Write, act: impl Fn(&mut MemoryStorage, Write)) {
        if let Sent::Key { hash, .. } = write.scope {
            self.with(hash, |shard| act(shard, write));
            return;
        }
        for shard in &self.shards.shards {
            act(&mut shard.lock(), write.at_another_shard());
        }
    }
}
