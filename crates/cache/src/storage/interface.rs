//! The interface of storage for the Managers.

use std::time::Duration;

use super::observe::{Foreseen, Observed, Observer};
use crate::{
    key::{Key, Scope, Sent},
    lease::{Character, Closed, Lease, Outcome, Ticket},
    principal::Principal,
    stats::{NotFilled, Stats},
};

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
    /// Not read often enough yet ([`super::Population::Hot`]).
    NotHot,
    /// Reads are only observed ([`Storage::observe`]).
    Observed,
    /// Storage is closed ([`super::MemoryStorage::close`]).
    Upgrading,
}

/// A write that was sent and not yet settled.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a write that is not settled or lost keeps its scope closed for ever"]
pub struct Write {
    /// Scope that the write can touch.
    pub scope: Sent,
    /// The shard's event number when it was sent.
    pub(super) sent_at: u64,
    /// Whether no other write to the key was under way when it was sent.
    pub(super) alone: bool,
    /// What is known of the namespace of a key, with population `on-write`.
    pub(crate) character: Character,
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

    /// Prefetches the memory that reads of an origin's keys with these hashes will use, so that
    /// their cache misses overlap. A hint: it changes no answer.
    fn prefetch(&self, _origin: u64, _hashes: &[u64]) {}

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
    fn write_settled_with(&mut self, write: Write, given: &[Given<'_>], now: Duration);

    /// Records what the origin said about the namespace of the key of a write, if no other write to
    /// it was under way.
    fn learn_by(&mut self, write: &Write, character: Character);

    /// Notes that a write will never be answered: drops the entries in its scope, which stays
    /// closed for the quarantine.
    fn write_lost(&mut self, write: Write, now: Duration);

    /// What observes reads, if they are only observed.
    fn observer(&self) -> Option<&Observer> {
        None
    }

    /// Counts a read that is only observed by what storage would answer. With a lease, its reply is
    /// to be offered as if it were to be stored.
    fn observe(&mut self, _observed: &Observed<'_>, _now: Duration) -> Foreseen {
        Foreseen::default()
    }

    /// Counters of this handle.
    fn stats(&self) -> &Stats;
}
