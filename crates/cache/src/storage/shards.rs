//! Storage shared by the workers: shards of [`MemoryStorage`], each behind a lock.
//!
//! A lock is held for one storage call, so for the copy of one value; the hash of the key selects
//! the shard, so two workers rarely use the same shard. Each origin has shards of its own, whose
//! memory is its share ([`super::shares`]). Writes to more than a key visit every shard of their
//! origin before they are sent, as the lease contract requires.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use super::sync::Mutex;
pub use crate::storage::division::{Share, StorageLimits};
use crate::{
    key::{Key, Sent},
    lease::{Character, Lease, Outcome, Ticket},
    stats::{NotFilled, Stats},
    storage::{
        Answer, Config, Given, MemoryStorage, Portion, Question, Storage, Write,
        division::{Division, Part},
        observe::{Foreseen, Observed, Observer},
    },
};

/// All of storage.
pub struct Shards {
    shards: Box<[Mutex<MemoryStorage>]>,
    /// The shards of each origin.
    parts: Box<[Part]>,
    observer: Option<Arc<Observer>>,
    /// The limits, and how they are divided among the parts.
    division: Mutex<Division>,
    quarantine: Duration,
    /// It held more than [`PREFETCHED_BYTES_MIN`] at the last [`Shards::advance`].
    prefetches: AtomicBool,
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
/// Memory of a shard of one of several origins: larger values than this are stored seldom.
const SHARD_BYTES_MIN: usize = 4 << 20;
/// Maximum number of shards: enough that two workers of a large machine rarely need the same lock.
const SHARDS_MAX: usize = 16;

impl Shards {
    /// Creates shards for `config`, whose limits apply to all of them together.
    pub fn new(config: &Config, seed: u64) -> Self {
        let memory = &config.memory;
        let large = memory.items_max >= ITEMS_FOR_SHARDS && memory.bytes_max >= BYTES_FOR_SHARDS;
        let limits = StorageLimits { items_max: memory.items_max, bytes_max: memory.bytes_max };
        let observer = Observer::of(config);
        let portions = if config.observe { &[] } else { &config.portions[..] };
        let parts = Part::of(portions, |parts| match parts {
            _ if !large => 1,
            1 => SHARDS_MAX,
            parts => (SHARDS_MAX / parts).min(limits.bytes_max / parts / SHARD_BYTES_MIN).max(1),
        });
        let division = Division::new(limits, portions);
        let mut shards = Vec::new();
        for (part, limits) in parts.iter().zip(division.limits_of_parts()) {
            for index in 0..part.count {
                let mut each = config.clone();
                let share = limits.share(index, part.count);
                (each.memory.items_max, each.memory.bytes_max) = (share.items_max, share.bytes_max);
                let (observer, seed) = (observer.clone(), seed ^ shards.len() as u64);
                shards.push(Mutex::new(MemoryStorage::observed_by(observer, each, seed)));
            }
        }
        Self {
            shards: shards.into(),
            parts: parts.into(),
            observer,
            division: Mutex::new(division),
            quarantine: config.quarantine,
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
        let mut division = self.division.lock();
        if division.is_due(now) {
            let measure = |part: &Part| part.measure(&self.memory_of(part), now);
            division.review(self.parts.iter().map(measure).collect(), now);
        }
        self.share_out(&mut division);
        more
    }

    /// Time for which a scope stays closed if the reply to its write never arrives.
    pub fn quarantine(&self) -> Duration {
        self.quarantine
    }

    /// Limits of all shards together.
    pub fn limits(&self) -> StorageLimits {
        self.division.lock().limits()
    }

    /// Changes the limits of all shards together at run time by `change`; returns the new limits.
    pub fn resize(&self, change: impl FnOnce(&mut StorageLimits)) -> StorageLimits {
        // Held throughout, so that of two changes at once the later holds for every shard.
        let mut division = self.division.lock();
        let mut limits = division.limits();
        change(&mut limits);
        division.resize(limits);
        self.share_out(&mut division);
        limits
    }

    /// Changes the bounds of the shares at run time: those of [`Config::portions`], in their order.
    pub fn bound(&self, portions: &[Portion]) {
        let mut division = self.division.lock();
        division.bound(portions);
        self.share_out(&mut division);
    }

    /// Limits storage to `bytes` of memory, even if the configured limit is higher.
    pub fn grant(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut division = self.division.lock();
        // A value above the configured limit changes nothing.
        if division.grant(bytes) {
            self.share_out(&mut division);
        }
    }

    /// The share of the origin of a [`Portion`]; `None` if all memory is for one origin.
    pub fn share(&self, origin: Option<u64>) -> Option<Share> {
        let number = self.parts.iter().position(|part| part.origin == origin)?;
        let memory = self.memory_of(&self.parts[number]);
        self.division.lock().share(number, &memory)
    }

    /// Gives each part its limits: first to those that shrink, then to others what these have
    /// given up.
    fn share_out(&self, division: &mut Division) {
        division.share_out(|number, limits| {
            let Some(part) = self.parts.get(number) else { return limits };
            let mut present = StorageLimits { items_max: 0, bytes_max: 0 };
            for (index, shard) in self.shards_of(part).iter().enumerate() {
                let share = limits.share(index, part.count);
                let (items, bytes) = shard.lock().resize(share.items_max, share.bytes_max);
                present.items_max = present.items_max.saturating_add(items);
                present.bytes_max = present.bytes_max.saturating_add(bytes);
            }
            present
        });
    }

    /// Drops every stored answer, and what the reads under way would store.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    /// Drops every stored answer, and stores none until [`Self::open`].
    pub fn close(&self) {
        self.shards.iter().for_each(|shard| shard.lock().close());
    }

    /// Whether nothing is stored until [`Self::open`].
    pub fn is_closed(&self) -> bool {
        self.shards.iter().any(|shard| shard.lock().is_closed())
    }

    /// Ends [`Self::close`].
    pub fn open(&self) {
        self.shards.iter().for_each(|shard| shard.lock().open());
    }

    /// Whether no read or write is under way, and none was lost.
    pub fn is_idle(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_idle())
    }

    /// What observes reads, if they are only observed.
    pub fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }

    /// Memory statistics, summed over all shards.
    pub fn memory(&self) -> store::Stats {
        sum(&self.shards)
    }

    fn memory_of(&self, part: &Part) -> store::Stats {
        sum(self.shards_of(part))
    }

    fn shards_of(&self, part: &Part) -> &[Mutex<MemoryStorage>] {
        &self.shards[part.first..part.first + part.count]
    }

    /// The part of an origin. Diverted connections have one together.
    #[inline]
    fn part(&self, origin: u64) -> &Part {
        let [first, .., last] = &self.parts[..] else { return &self.parts[0] };
        if first.origin == Some(origin) {
            return first;
        }
        let of = |origin: Option<u64>| self.parts.iter().find(|part| part.origin == origin);
        of(Some(origin)).or_else(|| of(None)).unwrap_or(last)
    }

    #[inline]
    pub(super) fn of(&self, origin: u64, hash: u64) -> &Mutex<MemoryStorage> {
        self.of_part(self.part(origin), hash)
    }

    #[inline]
    fn of_part(&self, part: &Part, hash: u64) -> &Mutex<MemoryStorage> {
        // The high bits: the index inside a shard uses the low ones.
        let index = (u128::from(hash) * part.count as u128) >> 64;
        &self.shards[part.first + index as usize]
    }
}

fn sum(shards: &[Mutex<MemoryStorage>]) -> store::Stats {
    let mut sum = store::Stats::default();
    shards.iter().for_each(|shard| sum += shard.lock().memory());
    sum
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

    fn with<T>(&mut self, origin: u64, hash: u64, act: impl FnOnce(&mut MemoryStorage) -> T) -> T {
        let mut shard = self.shards.of(origin, hash).lock();
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
        let key = question.key;
        let part = self.shards.part(key.namespace.origin);
        let shard = self.shards.of_part(part, key.hash);
        let Some(usage) = &part.usage else { return shard.lock().read(question, ticket, now, hit) };
        let mut bytes = 0;
        let answer = shard.lock().read(question, ticket, now, |answer| {
            bytes = answer.len();
            hit(answer);
        });
        if answer == Answer::Hit {
            usage.note(key.hash, key.bytes.len() + bytes);
        }
        answer
    }

    fn prefetches(&self) -> bool {
        self.shards.prefetches.load(Relaxed)
    }

    fn prefetch(&self, origin: u64, hashes: &[u64]) {
        let part = self.shards.part(origin);
        for &hash in hashes {
            self.shards.of_part(part, hash).lock().prefetch(hash);
        }
        for &hash in hashes {
            self.shards.of_part(part, hash).lock().prefetch_item(hash);
        }
    }

    fn fill(&mut self, lease: Lease, given: Given<'_>, now: Duration) -> Result<(), NotFilled> {
        let Key { namespace, hash, bytes } = given.key;
        if let Some(usage) = &self.shards.part(namespace.origin).usage {
            usage.note(hash, bytes.len() + given.answer.len());
        }
        self.with(namespace.origin, hash, |shard| shard.fill(lease, given, now))
    }

    fn release(&mut self, lease: Lease) {
        self.with(lease.origin(), lease.hash(), |shard| shard.release(lease));
    }

    fn lease(&mut self, key: Key<'_>) -> Option<Lease> {
        self.with(key.namespace.origin, key.hash, |shard| shard.lease(key))
    }

    fn compare(
        &mut self,
        lease: Lease,
        question: Question<'_>,
        now: Duration,
        see: impl FnOnce(&[u8]),
    ) -> u64 {
        self.with(lease.origin(), lease.hash(), |shard| shard.compare(lease, question, now, see))
    }

    fn learn(&mut self, lease: &Lease, character: Character) {
        self.with(lease.origin(), lease.hash(), |shard| shard.learn(lease, character));
    }

    fn write_sent(&mut self, scope: Sent) -> Write {
        let origin = scope.origin();
        if let Sent::Key { hash, .. } = scope {
            return self.with(origin, hash, |shard| shard.write_sent(scope));
        }
        let shards = Arc::clone(&self.shards);
        let mut sent = None;
        for shard in shards.shards_of(shards.part(origin)) {
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
                let origin = write.scope.origin();
                self.with(origin, hash, |shard| shard.write_settled_with(write, given, now));
            }
            _ => self.write_settled(write, Outcome::Applied),
        }
    }

    fn learn_by(&mut self, write: &Write, character: Character) {
        if let Sent::Key { hash, .. } = write.scope {
            let origin = write.scope.origin();
            self.with(origin, hash, |shard| shard.learn_by(write, character));
        }
    }

    fn write_lost(&mut self, write: Write, now: Duration) {
        self.for_each_of(write, |shard, write| shard.write_lost(write, now));
    }

    fn observer(&self) -> Option<&Observer> {
        self.shards.observer()
    }

    fn observe(&mut self, observed: &Observed<'_>, now: Duration) -> Foreseen {
        let Key { namespace, hash, .. } = observed.question.key;
        self.with(namespace.origin, hash, |shard| shard.observe(observed, now))
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

impl Handle {
    /// Calls `act` for every shard the write was sent to.
    fn for_each_of(&mut self, write: Write, act: impl Fn(&mut MemoryStorage, Write)) {
        let origin = write.scope.origin();
        if let Sent::Key { hash, .. } = write.scope {
            self.with(origin, hash, |shard| act(shard, write));
            return;
        }
        for shard in self.shards.shards_of(self.shards.part(origin)) {
            act(&mut shard.lock(), write.at_another_shard());
        }
    }
}
