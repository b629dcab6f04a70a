//! Storage: its interface for the Managers ([`Storage`]), and its implementation in memory.
//!
//! Storage holds two things that must change together: the stored answers and the leases
//! ([`crate::lease`]). One [`MemoryStorage`] is one shard with one owner; [`shards`]
//! puts as many of them behind locks as are useful and routes by the key's hash.

pub mod shards;

use std::{mem, sync::Arc, time::Duration};

use hashbrown::HashSet;
use smallvec::SmallVec;

use crate::{
    key::{Key, Scope, Sent},
    lease::{Character, Closed, Lease, Leases, Outcome, Ticket},
    stats::{NotFilled, Stats},
    variants,
};

mod division;
mod generation;
mod hot;
mod inspection;
mod interface;
pub mod observe;
mod observing;
pub mod shares;
mod usage;

use generation::Generation;
use hot::HotKeys;
pub use hot::Population;
pub use inspection::{Inspection, Stored};
pub use interface::{Answer, Given, Grant, Question, Refusal, Storage, Write};
use observe::{Foreseen, Observed, Observer};

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
    /// Store nothing, and foresee what would have been answered ([`observe`]).
    pub observe: bool,
    /// The origins among which the memory is divided; none: it is for all together.
    pub portions: Vec<Portion>,
}

/// What an origin may have of the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Portion {
    /// The origin, as [`crate::key::origin`] names it; `None`: those of diverted connections.
    pub origin: Option<u64>,
    /// Bytes that it always has, used or not; by default, a quarter of an equal share.
    pub floor: Option<u64>,
    /// Bytes that it never exceeds; by default, all of the memory.
    pub ceiling: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: store::Config::default(),
            population: Population::OnMiss,
            quarantine: Duration::from_secs(30),
            hot_period: Duration::from_secs(10),
            observe: false,
            portions: Vec::new(),
        }
    }
}

/// One shard of storage, in memory.
pub struct MemoryStorage {
    config: Config,
    memory: store::Memory,
    leases: Leases,
    hot: Option<HotKeys>,
    /// Shared by all shards.
    observer: Option<Arc<Observer>>,
    /// Nothing is stored: see [`Self::close`].
    closed: bool,
    scratch: Vec<u8>,
    stats: Stats,
}

impl MemoryStorage {
    /// An empty shard.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        let observer = Observer::of(&config);
        Self::observed_by(observer, config, seed)
    }

    fn observed_by(observer: Option<Arc<Observer>>, config: Config, seed: u64) -> Self {
        Self {
            memory: store::Memory::new(config.memory, seed),
            leases: Leases::default(),
            hot: HotKeys::new(&config),
            observer,
            closed: false,
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
        if let Some(observer) = &self.observer {
            observer.advance(now);
        }
        self.memory.step(STEP_WORK, now)
    }

    /// As [`store::Memory::next_full`].
    pub(crate) fn next_full(&mut self) -> Option<store::Collapse> {
        self.memory.next_full()
    }

    /// Changes the limits; the memory follows in bounded steps of [`Self::advance`]. Returns those
    /// of now ([`store::Memory::limits`]).
    pub fn resize(&mut self, items_max: usize, bytes_max: usize) -> (usize, usize) {
        self.memory.resize(items_max, bytes_max);
        self.memory.limits()
    }

    /// Drops every stored answer, and revokes every lease; writes under way are kept.
    pub fn clear(&mut self) {
        let origins: HashSet<u64> = self.leases.origins().collect();
        origins.into_iter().for_each(|origin| self.written_elsewhere(Scope::Origin(origin)));
        self.memory.clear();
        if let Some(observer) = &self.observer {
            observer.clear();
        }
    }

    /// Drops every stored answer, and stores none until [`Self::open`]: another process serves the
    /// same origins, and its writes are not seen here.
    pub fn close(&mut self) {
        self.closed = true;
        self.clear();
    }

    /// Whether [`Self::close`] has not ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Ends [`Self::close`]. What was read until now is not stored: no lease was given.
    pub fn open(&mut self) {
        self.closed = false;
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
            if let Some(observer) = &self.observer {
                observer.remove(hash);
            }
        }
    }

    fn store(&mut self, generation: u64, given: Given<'_>, now: Duration) -> Result<(), NotFilled> {
        if self.closed {
            return Err(NotFilled::Revoked);
        }
        if let Some(observer) = &self.observer {
            return observer.fill(generation, given, now);
        }
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
            inserted.map(drop).map_err(|why| match why {
                store::Refused::NotAdmitted => NotFilled::NotAdmitted,
                _ => NotFilled::Refused,
            })
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
        if self.observer.is_some() {
            return Answer::Miss(Err(Refusal::Observed));
        }
        if self.closed {
            return Answer::Miss(Err(Refusal::Upgrading));
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
        let character = match scope {
            Sent::Key { namespace, .. } if self.config.population == Population::OnWrite => {
                self.leases.character(namespace)
            }
            _ => Character::Unknown,
        };
        Write { scope, sent_at, alone: self.leases.is_sole_writer(scope, sent_at), character }
    }

    fn write_settled(&mut self, write: Write, outcome: Outcome) {
        if outcome == Outcome::Applied {
            self.drop_key(write.scope);
        }
        self.leases.write_settled(write.scope, outcome);
    }

    fn write_settled_with(&mut self, write: Write, given: &[Given<'_>], now: Duration) {
        let scope = write.scope;
        let alone = write.alone && self.leases.is_sole_writer(scope, write.sent_at);
        self.write_settled(write, Outcome::Applied);
        if alone
            && self.config.population == Population::OnWrite
            && let Sent::Key { namespace, hash } = scope
            && let Some(generation) = self.leases.generation(namespace)
        {
            for given in given.iter().filter(|given| given.key.hash == hash) {
                // If it is not stored, the next read fills it.
                let _ = self.store(generation, *given, now);
            }
        }
    }

    fn learn_by(&mut self, write: &Write, character: Character) {
        if write.alone
            && self.leases.is_sole_writer(write.scope, write.sent_at)
            && let Sent::Key { namespace, .. } = write.scope
        {
            self.leases.learn_of(namespace, character);
        }
    }

    fn write_lost(&mut self, write: Write, now: Duration) {
        self.drop_key(write.scope);
        self.leases.write_lost(write.scope, now + self.config.quarantine);
    }

    fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }

    fn observe(&mut self, observed: &Observed<'_>, now: Duration) -> Foreseen {
        self.foresee(observed, now)
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests;
