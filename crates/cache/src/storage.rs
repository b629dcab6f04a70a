//! Storage: its interface for the Managers, and its implementation in memory.
//!
//! Storage holds two things that must change together: the stored answers and the leases
//! ([`crate::lease`]). One [`MemoryStorage`] is one shard with one owner; [`shards`]
//! puts as many of them behind locks as are useful and routes by the key's hash.

pub mod shards;

use std::{mem, time::Duration};

use hashbrown::HashSet;
use smallvec::SmallVec;

use crate::{
    key::{Key, Scope, Sent},
    lease::{Character, Closed, Lease, Leases, Outcome, Ticket},
    principal::Principal,
    stats::{NotFilled, Stats},
    variants,
};

mod generation;
mod hot;
mod inspection;

use generation::Generation;
use hot::HotKeys;
pub use hot::Population;
pub use inspection::{Inspection, Stored};

/// Locks of the shards; a test replaces this module by a model of threads.
mod sync {
    pub(super) use parking_lot::Mutex;
}

/// Limits and durations of one shard.
#[derive(Debug, Clone)]
pub struct Config {
    /// Limits and replacement policy of the memory.
    pub memory: store::Config,
    /// When answers are stored.
    pub population: Population,
    /// Time for which a scope stays closed if the reply to its write never arrives.
    pub quarantine: Duration,
    /// Length of the period over which reads are counted for [`Population::Hot`].
    pub hot_period: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: store::Config::default(),
            population: Population::OnMiss,
            quarantine: Duration::from_secs(30),
            hot_period: Duration::from_secs(10),
        }
    }
}

/// A read and its principal.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Selects one of its answers.
    pub variant: &'a [u8],
    /// The principal; without one nothing is answered from storage, and the reply may be stored
    /// once its principal is known.
    pub principal: Option<&'a Principal>,
}

/// A reply of the origin and its principal.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Selects one of its answers.
    pub variant: &'a [u8],
    /// The principal that the origin sent it to.
    pub principal: &'a Principal,
    /// The answer, as it is to be stored.
    pub answer: &'a [u8],
    /// Time at which the origin was asked.
    pub asked_at: Duration,
    /// When it must no longer be served: its age, or the key's own expiry at the origin.
    pub expires_at: Option<Duration>,
}

/// Result of a read from storage.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Served; the stored answer was handed to the caller's closure.
    Hit,
    /// Another read of the key is in progress; the ticket is woken when it ends.
    Pending(Ticket),
    /// Not stored. With a lease, the reply may be stored.
    Miss(Result<Grant, Refusal>),
}

/// A lease, and whether the origin must be asked what kind of namespace this is before it is used.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    /// The right to fill.
    pub lease: Lease,
    /// Known character of the namespace.
    pub character: Character,
}

/// Reasons why a missing key may not be filled by this read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A scope is closed.
    Closed(Closed),
    /// Not read often enough yet ([`Population::Hot`]).
    NotHot,
}

/// A write that was sent and not yet settled.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a write that is not settled or lost keeps its scope closed for ever"]
pub struct Write {
    /// Scope that the write can touch.
    pub scope: Sent,
    /// The shard's event number when it was sent.
    sent_at: u64,
    /// Whether no other write to the key was under way when it was sent.
    alone: bool,
}

impl Write {
    /// The same write at another shard: one that touches more than a key is sent to all of them,
    /// and settled or lost at all of them.
    pub fn at_another_shard(&self) -> Self {
        Self { alone: false, ..*self }
    }
}

/// Storage operations that the managers use. A fill needs the lease of its miss, and a write closes
/// its scope before it is sent ([`crate::lease`]).
pub trait Storage {
    /// Answers a read, handing the stored answer to `hit`.
    fn read(
        &mut self,
        question: Question<'_>,
        ticket: Option<Ticket>,
        now: Duration,
        hit: impl FnOnce(&[u8]),
    ) -> Answer;

    /// Whether [`Self::prefetch`] is worth its cost: storage is larger than the caches of
    /// processors.
    fn prefetches(&self) -> bool {
        false
    }

    /// Prefetches the memory that reads of keys with these hashes will use, so that their cache
    /// misses overlap. A hint: it changes no answer.
    fn prefetch(&self, _hashes: &[u64]) {}

    /// Stores what the origin gave, unless a write came since the lease was taken.
    ///
    /// # Errors
    /// Why it was not stored.
    fn fill(&mut self, lease: Lease, given: Given<'_>, now: Duration) -> Result<(), NotFilled>;

    /// Returns a lease whose reply cannot be stored.
    fn release(&mut self, lease: Lease);

    /// Takes a lease of a key that is stored, to compare it with the origin; none if a write to it
    /// is under way.
    fn lease(&mut self, key: Key<'_>) -> Option<Lease>;

    /// Returns a lease, and hands the stored answer to `see` if no write has come since the lease
    /// was taken. Returns the number of writes to other keys of the shard since then.
    fn compare(
        &mut self,
        lease: Lease,
        question: Question<'_>,
        now: Duration,
        see: impl FnOnce(&[u8]),
    ) -> u64;

    /// Records what the origin said about the namespace the lease was taken in.
    fn learn(&mut self, lease: &Lease, character: Character);

    /// Closes the scope of a write and suspends its entries. Call it before the write is sent.
    fn write_sent(&mut self, scope: Sent) -> Write;

    /// Notes the outcome of an answered write: drops the entries in its scope, or serves them
    /// again.
    fn write_settled(&mut self, write: Write, outcome: Outcome);

    /// Notes a write at the origin that this cache did not forward: drops the entries that it can
    /// have touched and revokes the leases there. Closes no scope.
    fn written_elsewhere(&mut self, scope: Scope<'_>) {
        let write = self.write_sent(scope.into());
        self.write_settled(write, Outcome::Applied);
    }

    /// Stores the value of an applied write that contains the whole value of its key, if the
    /// population mode allows it and no other write was under way.
    fn write_settled_with(&mut self, write: Write, given: Given<'_>, now: Duration);

    /// Notes that a write will never be answered: drops the entries in its scope, which stays
    /// closed for the quarantine.
    fn write_lost(&mut self, write: Write, now: Duration);

    /// Counters of this handle.
    fn stats(&self) -> &Stats;
}

/// One shard of storage, in memory.
pub struct MemoryStorage {
    config: Config,
    memory: store::Memory,
    leases: Leases,
    hot: Option<HotKeys>,
    scratch: Vec<u8>,
    stats: Stats,
}

impl MemoryStorage {
    /// An empty shard.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            memory: store::Memory::new(config.memory, seed),
            leases: Leases::default(),
            hot: HotKeys::new(&config),
            scratch: Vec::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// Does the work that is due: ends quarantines, begins periods, and does a bounded step of
    /// shrinking and expiring. Returns whether more can be done at once.
    pub fn advance(&mut self, now: Duration) -> bool {
        self.leases.advance(now);
        if let Some(hot) = &mut self.hot {
            hot.advance(now);
        }
        self.memory.step(STEP_WORK, now)
    }

    /// Changes the limits; the memory follows in bounded steps of [`Self::advance`].
    pub fn resize(&mut self, items_max: usize, bytes_max: usize) {
        self.memory.resize(items_max, bytes_max);
    }

    /// Drops every stored answer, and revokes every lease; writes under way are kept.
    pub fn clear(&mut self) {
        let origins: HashSet<u64> = self.leases.origins().collect();
        origins.into_iter().for_each(|origin| self.written_elsewhere(Scope::Origin(origin)));
        self.memory.clear();
    }

    /// Statistics of the shard's memory.
    #[must_use]
    pub fn memory(&self) -> store::Stats {
        self.memory.stats()
    }

    /// As [`store::Memory::prefetch`].
    pub(crate) fn prefetch(&self, hash: u64) {
        self.memory.prefetch(hash);
    }

    /// As [`store::Memory::prefetch_item`].
    pub(crate) fn prefetch_item(&self, hash: u64) {
        self.memory.prefetch_item(hash);
    }

    /// Readers to notify that the fill they waited for has ended.
    pub fn woken(&mut self) -> &mut Vec<Ticket> {
        self.leases.woken()
    }

    /// Whether no read or write is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.leases.is_idle()
    }

    /// Lets the value of a write be stored in a namespace without earlier reads, by taking a lease
    /// and returning it at once, which registers the namespace.
    fn expect_value(&mut self, scope: Sent) {
        if self.config.population == Population::OnWrite
            && let Sent::Key { namespace, hash } = scope
            && self.leases.generation(namespace).is_none()
            && let Ok(lease) = self.leases.take(Key { namespace, bytes: &[], hash }, None)
        {
            self.leases.release(lease);
        }
    }

    /// Drops the entries of a scope: of a key by deletion, of wider scopes by a new generation.
    fn drop_key(&mut self, scope: Sent) {
        if let Sent::Key { hash, .. } = scope {
            self.memory.remove_hash(hash);
        }
    }

    fn store(&mut self, generation: u64, given: Given<'_>, now: Duration) -> Result<(), NotFilled> {
        let Given { key, principal, expires_at, .. } = given;
        let variant: SmallVec<[u8; 64]> =
            principal.mark().iter().chain(given.variant).copied().collect();
        let answer = variants::signed(principal, given.answer, given.asked_at);
        let generation = Generation::new(generation);
        let mut expires_at = expires_at.unwrap_or(Duration::MAX);
        let mut value = mem::take(&mut self.scratch);
        let older = match self.memory.peek(key.hash, generation.before(key), now) {
            Some(item) => {
                expires_at = expires_at.min(item.expires_at.unwrap_or(Duration::MAX));
                item.value
            }
            None => &[],
        };
        variants::put(older, &variant, &answer, self.config.memory.value_bytes_max, &mut value);
        let inserted = if value.len() > self.config.memory.value_bytes_max {
            Err(NotFilled::TooLarge)
        } else if expires_at <= now {
            Err(NotFilled::Expiry)
        } else {
            let inserted =
                self.memory.insert(key.hash, generation.before(key), &value, Some(expires_at), now);
            inserted.map(drop).map_err(|_| NotFilled::Refused)
        };
        value.clear();
        if value.capacity() <= SCRATCH_BYTES_MAX {
            self.scratch = value;
        }
        inserted
    }
}

/// Work of one [`MemoryStorage::advance`], in the memory's own units (items looked at).
const STEP_WORK: usize = 1_024;
/// The scratch buffer is kept between fills up to this size.
const SCRATCH_BYTES_MAX: usize = 64 * 1_024;

impl Storage for MemoryStorage {
    fn read(
        &mut self,
        question: Question<'_>,
        ticket: Option<Ticket>,
        now: Duration,
        hit: impl FnOnce(&[u8]),
    ) -> Answer {
        let Question { key, variant, principal } = question;
        if let Some(principal) = principal
            && let Some(generation) = self.leases.serves(key)
        {
            let generation = Generation::new(generation);
            let value = self.memory.lookup(key.hash, generation.before(key), now);
            let answer =
                value.and_then(|value| variants::answer_to(principal, value, variant, now));
            if let Some(answer) = answer {
                hit(answer);
                return Answer::Hit;
            }
        }
        if let Some(hot) = &mut self.hot
            && !hot.count(key.hash)
        {
            return Answer::Miss(Err(Refusal::NotHot));
        }
        match self.leases.take(key, ticket) {
            Ok(lease) => {
                let character = self.leases.character(key.namespace);
                Answer::Miss(Ok(Grant { lease, character }))
            }
            Err(Closed::FillPending) => ticket
                .map_or(Answer::Miss(Err(Refusal::Closed(Closed::FillPending))), |ticket| {
                    Answer::Pending(ticket)
                }),
            Err(closed) => Answer::Miss(Err(Refusal::Closed(closed))),
        }
    }

    fn fill(&mut self, lease: Lease, given: Given<'_>, now: Duration) -> Result<(), NotFilled> {
        let generation = self.leases.redeem(lease).ok_or(NotFilled::Revoked)?;
        self.store(generation, given, now)
    }

    fn release(&mut self, lease: Lease) {
        self.leases.release(lease);
    }

    fn lease(&mut self, key: Key<'_>) -> Option<Lease> {
        self.leases.take(key, None).ok()
    }

    fn compare(
        &mut self,
        lease: Lease,
        question: Question<'_>,
        now: Duration,
        see: impl FnOnce(&[u8]),
    ) -> u64 {
        let (writes, is_good) = self.leases.compared(lease);
        if is_good && let Some(answer) = self.peek(question, now) {
            see(answer);
        }
        writes
    }

    fn learn(&mut self, lease: &Lease, character: Character) {
        self.leases.learn(lease, character);
    }

    fn write_sent(&mut self, scope: Sent) -> Write {
        self.expect_value(scope);
        self.leases.write_sent(scope);
        let sent_at = self.leases.events();
        Write { scope, sent_at, alone: self.leases.is_sole_writer(scope, sent_at) }
    }

    fn write_settled(&mut self, write: Write, outcome: Outcome) {
        if outcome == Outcome::Applied {
            self.drop_key(write.scope);
        }
        self.leases.write_settled(write.scope, outcome);
    }

    fn write_settled_with(&mut self, write: Write, given: Given<'_>, now: Duration) {
        let alone = write.alone && self.leases.is_sole_writer(write.scope, write.sent_at);
        self.write_settled(write, Outcome::Applied);
        if alone
            && self.config.population == Population::OnWrite
            && let Some(generation) = self.leases.generation(given.key.namespace)
        {
            // If it is not stored, the next read fills it.
            let _ = self.store(generation, given, now);
        }
    }

    fn write_lost(&mut self, write: Write, now: Duration) {
        self.drop_key(write.scope);
        self.leases.write_lost(write.scope, now + self.config.quarantine);
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests;
