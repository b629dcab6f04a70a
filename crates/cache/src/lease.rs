//! Leases: why no stored answer is ever older than a write that was answered.
//!
//! A read that misses takes a [`Lease`]; only the lease lets its reply into storage. A write is
//! under way from before its first byte leaves for the origin until it is *settled*. While it is
//! under way its scope is **closed**: the leases in it are revoked, none is given, and what is
//! stored in it is **suspended**: it stays where it is, and a read of it misses. Settled, a write
//! is
//!
//! - **applied**: what is stored in its scope is dropped. Every answer that does not prove the
//!   contrary counts as this;
//! - **refused**: the origin said that it has done nothing. What was suspended is served again.
//!
//! A write whose answer never comes is *lost*: what is stored is dropped, and the scope stays
//! closed for a bounded quarantine, by the end of which the origin has applied the write or will
//! never do so.
//!
//! **Why this is linearizable.** An entry of key *k* is right at time *t* if the origin's value of
//! *k* can be that of the entry at some moment between the start of the read that is served at *t*
//! and *t*.
//!
//! 1. *A read beside an unanswered write misses.* The origin may have applied the write, and
//!    another client may have seen the new value already. To serve the old one then is to go back
//!    in time. The answer of the origin itself is right whatever happened.
//! 2. *What is stored was read outside any write.* A lease is given only in an open scope and is
//!    revoked by the first write that is sent, whatever becomes of that write. So the origin
//!    executed a read that fills while no write to *k* was under way, and the reply is the value
//!    that holds until the next write is sent.
//! 3. *Serving again after a refusal is right.* While the scope was closed nothing filled (2), so
//!    the entry is the one of before the write. The refused write did not change *k*. If it was
//!    alone, *k* is what it was.
//! 4. *Several writes in one scope* are counted. The scope is closed until the last is settled, in
//!    any order. If one of them was applied or lost, the entry was dropped at that moment, and the
//!    refusal of the others finds nothing to serve. If all were refused, (3) holds for all of them
//!    together.
//! 5. *A write to more than a key* closes, suspends and drops every key below it in the same way. A
//!    collection that is written begins a new *generation*, which its stored keys begin with: what
//!    is stored under the old one can no longer be reached and ages out. Generations are never used
//!    twice.
//!
//! Writers that do not pass here are outside all this; see [`crate::feed`].
//!
//! Time here is a counter of write events, not a clock: a lease taken at event *n* is good as long
//! as no write above its key was sent after *n*.
//!
//! A record exists only while something is under way on its key, so the table is bounded by the
//! requests in flight; a namespace record lives longer because it carries the generation.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use hashbrown::HashMap;

use crate::key::{Key, Namespace, Sent};

mod flight;
mod write;

use flight::{Flight, Writes};

/// Maximum number of namespaces remembered; beyond it, idle ones are dropped, which causes misses.
pub const NAMESPACES_MAX: usize = 16_384;
/// Maximum number of readers that wait for one fill; further readers ask the origin themselves.
pub const WAITERS_MAX: usize = 1_024;

/// Maximum number of lost writes in quarantine one by one. Beyond it, a lost write to a key closes
/// its collection for the same time, and beyond [`NAMESPACES_MAX`] of those its origin.
pub const QUARANTINE_MAX: usize = 4_096;

/// A session that waits for a fill: the session's number, chosen by tier 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The right to store the reply of one read, unless a write comes first.
///
/// It must come back: to [`Leases::redeem`] or [`Leases::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped keeps its record for ever: redeem or release it"]
pub struct Lease {
    namespace: Namespace,
    hash: u64,
    taken_at: u64,
}

impl Lease {
    /// The origin of the lease's key, as [`Namespace`] has it.
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.namespace.origin
    }

    /// Hash of the lease's key, which determines its shard.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Whether reads of a namespace may be stored, as far as the origin has reported its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Character {
    /// Not asked yet.
    #[default]
    Unknown,
    /// Plain records under plain equality: cacheable.
    Plain,
    /// A view, a collation, a time series or a capped collection: a write that does not name a
    /// record can change it.
    Derived,
}

/// Reason why no lease was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// A write to the key, or to something above it, is not settled.
    WritePending,
    /// The answer to a write to the key, or to something above it, was lost.
    Quarantine,
    /// Another read of the key is already on its way; the caller's ticket was noted.
    FillPending,
    /// The namespace was found to be [`Character::Derived`].
    Derived,
    /// [`NAMESPACES_MAX`] namespaces are all busy.
    NamespaceLimit,
}

/// Outcome of a write that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The origin has applied it, or may have.
    Applied,
    /// The origin has done nothing.
    Refused,
}

/// One collection.
#[derive(Debug)]
struct Territory {
    origin: u64,
    database: u64,
    generation: u64,
    character: Character,
    leases: u32,
    writes: Writes,
    revoked_at: u64,
}

/// The lease table of one shard.
#[derive(Debug, Default)]
pub struct Leases {
    events: u64,
    generations: u64,
    flights: HashMap<u64, Flight>,
    territories: HashMap<u64, Territory>,
    /// Number of writes under way to single keys; while it is zero, a hit skips the lookup of
    /// flights.
    key_writes: usize,
    /// Writes under way to whole databases and whole origins; nothing is here without one.
    databases: HashMap<u64, Writes>,
    origins: HashMap<u64, Writes>,
    quarantine: BinaryHeap<Reverse<(Duration, Sent)>>,
    /// Scopes in `quarantine` for many writes together, and until when.
    merged: HashMap<Sent, Duration>,
    woken: Vec<Ticket>,
}

impl Leases {
    /// The generation that stored keys of `namespace` begin with; `None` if nothing is stored
    /// there.
    #[must_use]
    pub fn generation(&self, namespace: Namespace) -> Option<u64> {
        self.territories.get(&namespace.collection).map(|territory| territory.generation)
    }

    /// Returns the generation under which `key` may be served now; `None` while nothing is stored
    /// in its namespace, or while entries there are suspended.
    #[inline]
    #[must_use]
    pub fn serves(&self, key: Key<'_>) -> Option<u64> {
        let territory = self.territories.get(&key.namespace.collection)?;
        let open = territory.writes.are_none()
            && (self.key_writes == 0
                || self.flights.get(&key.hash).is_none_or(|flight| flight.writes.are_none()))
            && self.closed_above(key.namespace).is_none();
        open.then_some(territory.generation)
    }

    /// Takes a lease for a read of `key` that is about to go to the origin.
    ///
    /// With a `ticket` the caller waits if a read of the key that may still fill it is under way,
    /// and is woken when that read has ended.
    ///
    /// # Errors
    /// [`Closed`] says why nothing may be stored.
    pub fn take(&mut self, key: Key<'_>, ticket: Option<Ticket>) -> Result<Lease, Closed> {
        let namespace = key.namespace;
        if let Some(closed) = self.closed_above(namespace) {
            return Err(closed);
        }
        let events = self.events;
        let territory = self.territory(namespace).ok_or(Closed::NamespaceLimit)?;
        if let Some(closed) = territory.writes.closed() {
            return Err(closed);
        }
        if territory.character == Character::Derived {
            return Err(Closed::Derived);
        }
        let collection_revoked_at = territory.revoked_at;
        territory.leases += 1;
        let flight = self.flights.entry(key.hash).or_default();
        let refused = flight.writes.closed().or_else(|| {
            let ticket = ticket.filter(|_| flight.is_worth_a_wait(collection_revoked_at))?;
            flight.waiters.push(ticket);
            Some(Closed::FillPending)
        });
        if let Some(closed) = refused {
            self.leave(namespace);
            return Err(closed);
        }
        flight.leases += 1;
        flight.leased_at = events;
        Ok(Lease { namespace, hash: key.hash, taken_at: events })
    }

    /// Returns why a read of `key` would get no lease now, as [`Self::take`] decides; changes
    /// nothing.
    #[must_use]
    pub fn closed(&self, key: Key<'_>) -> Option<Closed> {
        if let Some(closed) = self.closed_above(key.namespace) {
            return Some(closed);
        }
        let flight = self.flights.get(&key.hash);
        let written = || flight.and_then(|flight| flight.writes.closed());
        match self.territories.get(&key.namespace.collection) {
            Some(territory) => territory
                .writes
                .closed()
                .or((territory.character == Character::Derived).then_some(Closed::Derived))
                .or_else(written),
            None => {
                let full = self.territories.len() >= NAMESPACES_MAX
                    && !self.territories.values().any(Territory::is_idle);
                full.then_some(Closed::NamespaceLimit).or_else(written)
            }
        }
    }

    /// Whether a read of `key` with a ticket would wait for another ([`Self::take`]).
    #[must_use]
    pub fn is_worth_a_wait(&self, key: Key<'_>) -> bool {
        let territory = self.territories.get(&key.namespace.collection);
        let revoked_at = territory.map_or(0, |territory| territory.revoked_at);
        self.closed(key).is_none()
            && self.flights.get(&key.hash).is_some_and(|flight| flight.is_worth_a_wait(revoked_at))
    }

    /// Whether a read of `key` is under way whose reply may be stored.
    #[must_use]
    pub fn is_filling(&self, key: Key<'_>) -> bool {
        self.flights.get(&key.hash).is_some_and(|flight| flight.leases > 0)
    }

    /// Returns a lease when its reply has arrived. Gives the generation to store the reply under,
    /// or `None` if a write was sent since the lease was taken. Wakes the sessions that wait.
    pub fn redeem(&mut self, lease: Lease) -> Option<u64> {
        // Built with `RUSTFLAGS='--cfg enroute_broken_lease'` the cache stores late replies: the
        // history checker must find that. No other build contains it.
        let good = cfg!(enroute_broken_lease) || self.is_good(&lease);
        let generation = self.generation(lease.namespace);
        self.release(lease);
        generation.filter(|_| good)
    }

    /// Returns a lease without a reply to store. Wakes the sessions that wait; each forwards its
    /// own request.
    #[allow(clippy::needless_pass_by_value, reason = "a lease can be given back once")]
    pub fn release(&mut self, lease: Lease) {
        if let Some(flight) = self.flights.get_mut(&lease.hash) {
            flight.leases -= 1;
            self.woken.append(&mut flight.waiters);
            if flight.leases == 0 && flight.writes.are_none() {
                self.flights.remove(&lease.hash);
            }
        }
        self.leave(lease.namespace);
    }

    /// Returns a lease whose reply is not stored: the number of writes that were sent since it was
    /// taken, and whether none of them can have touched its key. Wakes the sessions that wait.
    pub fn compared(&mut self, lease: Lease) -> (u64, bool) {
        let seen = (self.events - lease.taken_at, self.is_good(&lease));
        self.release(lease);
        seen
    }

    /// Records the character that the origin reported for the namespace of `lease`, unless the
    /// namespace has changed since the lease was taken.
    pub fn learn(&mut self, lease: &Lease, character: Character) {
        if self.is_good(lease) {
            self.learn_of(lease.namespace, character);
        }
    }

    /// The same for a namespace in which nothing but the caller's write was under way since.
    pub(crate) fn learn_of(&mut self, namespace: Namespace, character: Character) {
        if let Some(territory) = self.territories.get_mut(&namespace.collection) {
            territory.character = character;
        }
    }

    /// Returns the known character of `namespace`.
    #[must_use]
    pub fn character(&self, namespace: Namespace) -> Character {
        self.territories
            .get(&namespace.collection)
            .map_or(Character::Unknown, |territory| territory.character)
    }

    /// Whether the write that was sent at event `sent_at` is the only one under way on its key, and
    /// the newest. If that was true when it was sent and is true when it is answered, no other
    /// write overlapped with it, and its value may be stored (write-allocate).
    #[must_use]
    pub fn is_sole_writer(&self, scope: Sent, sent_at: u64) -> bool {
        let Sent::Key { namespace, hash } = scope else { return false };
        if cfg!(enroute_broken_lease) {
            return true;
        }
        let key_is_quiet = self
            .flights
            .get(&hash)
            .is_some_and(|flight| flight.writes.sent == 1 && flight.revoked_at == sent_at);
        let collection_is_quiet =
            self.territories.get(&namespace.collection).is_some_and(|territory| {
                territory.writes.are_none()
                    && territory.revoked_at <= sent_at
                    && territory.character != Character::Derived
            });
        key_is_quiet && collection_is_quiet && self.closed_above(namespace).is_none()
    }

    /// The origins of which something is stored or is being read to be stored.
    pub fn origins(&self) -> impl Iterator<Item = u64> {
        self.territories.values().map(|territory| territory.origin)
    }

    /// The number of write events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Sessions to notify that the fill they waited for has ended.
    pub fn woken(&mut self) -> &mut Vec<Ticket> {
        &mut self.woken
    }

    /// Whether no leases and writes are under way, as in a drained cache.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty()
            && self.databases.is_empty()
            && self.origins.is_empty()
            && self.territories.values().all(Territory::is_idle)
    }

    fn is_good(&self, lease: &Lease) -> bool {
        let after = |revoked_at: u64| lease.taken_at >= revoked_at;
        let flight = self.flights.get(&lease.hash);
        let territory = self.territories.get(&lease.namespace.collection);
        let is_good = |writes: &Writes, revoked_at| writes.are_none() && after(revoked_at);
        self.closed_above(lease.namespace).is_none()
            && flight.is_some_and(|flight| is_good(&flight.writes, flight.revoked_at))
            && territory.is_some_and(|territory| is_good(&territory.writes, territory.revoked_at))
    }

    /// Returns the reason why the whole database or origin of `namespace` is closed, if it is. The
    /// maps are empty most of the time, and then nothing is hashed.
    #[inline]
    fn closed_above(&self, namespace: Namespace) -> Option<Closed> {
        if self.databases.is_empty() && self.origins.is_empty() {
            return None;
        }
        let database = self.databases.get(&namespace.database).and_then(Writes::closed);
        database.or_else(|| self.origins.get(&namespace.origin).and_then(Writes::closed))
    }

    /// The record of `namespace`, made if there is room.
    fn territory(&mut self, namespace: Namespace) -> Option<&mut Territory> {
        if !self.territories.contains_key(&namespace.collection) {
            if self.territories.len() >= NAMESPACES_MAX {
                self.territories.retain(|_, territory| !territory.is_idle());
            }
            if self.territories.len() >= NAMESPACES_MAX {
                return None;
            }
            self.generations += 1;
            let mut territory = Territory::new(namespace, self.generations);
            // What happened to it before it was forgotten is not known any more.
            territory.revoked_at = self.events;
            self.territories.insert(namespace.collection, territory);
        }
        self.territories.get_mut(&namespace.collection)
    }

    fn leave(&mut self, namespace: Namespace) {
        if let Some(territory) = self.territories.get_mut(&namespace.collection) {
            territory.leases -= 1;
        }
    }
}

impl Territory {
    fn new(namespace: Namespace, generation: u64) -> Self {
        let Namespace { origin, database, .. } = namespace;
        Self {
            origin,
            database,
            generation,
            character: Character::Unknown,
            leases: 0,
            writes: Writes::default(),
            revoked_at: 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.leases == 0 && self.writes.are_none()
    }
}

#[cfg(test)]
mod tests;
