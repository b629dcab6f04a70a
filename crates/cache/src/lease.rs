//! Leases: why a late reply can never bring back an old value.
//!
//! A read that misses takes a [`Lease`]; only the lease lets its reply into storage. A write revokes
//! the leases of everything it can touch when it is *sent* – before the origin can have applied it –
//! and holds the scope closed until it is *settled*: answered, or, if its answer never came, until a
//! bounded quarantine has passed. While a scope is closed no lease is given in it, so nothing read
//! before or during the write can be stored after it.
//!
//! Time here is a counter of write events, not a clock: a lease taken at event *n* is good as long
//! as no write above its key happened after *n*.
//!
//! A record exists only while something is under way on its key, so the table is bounded by the
//! requests in flight; a namespace record lives longer because it carries the *generation* that
//! stored keys begin with. Closing a collection moves it to a fresh generation: its old entries can
//! no longer be reached and age out of storage. Generations are never used twice.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use hashbrown::HashMap;

use crate::key::{Key, Namespace, Sent};

/// At most this many namespaces are remembered; beyond, the idle ones make room, which costs misses.
pub const NAMESPACES_MAX: usize = 16_384;
/// At most this many readers wait for one fill; the next ones ask the origin themselves.
pub const WAITERS_MAX: usize = 1_024;

/// At most this many lost writes are in quarantine one by one; beyond, a lost write to a key closes
/// its collection, and beyond [`NAMESPACES_MAX`] of those its origin, for as long.
pub const QUARANTINE_MAX: usize = 65_536;

/// Someone who waits for a fill: the session's number, chosen by tier 2.
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
    /// Hash of the key the lease is for, which says what shard it belongs to.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What may be read of a namespace, as far as it has been learned from the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Character {
    /// Not asked yet.
    #[default]
    Unknown,
    /// Plain records under plain equality: cacheable.
    Plain,
    /// A view, a collation, a time series: a write elsewhere can change what is read here.
    Derived,
}

/// Why no lease was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// A write to the key, or to something above it, is not settled.
    WritePending,
    /// Another read of the key is already on its way; the caller's ticket was noted.
    FillPending,
    /// The namespace was found to be [`Character::Derived`].
    Derived,
    /// [`NAMESPACES_MAX`] namespaces are all busy.
    NamespaceLimit,
}

/// What is under way on one key.
#[derive(Debug, Default)]
struct Flight {
    leases: u32,
    writes: u32,
    /// Event of the newest lease; a reader waits only for a lease that is still good.
    leased_at: u64,
    revoked_at: u64,
    waiters: Vec<Ticket>,
}

/// One collection.
#[derive(Debug)]
struct Territory {
    origin: u64,
    database: u64,
    generation: u64,
    character: Character,
    leases: u32,
    writes: u32,
    revoked_at: u64,
}

/// The lease table of one shard.
#[derive(Debug, Default)]
pub struct Leases {
    events: u64,
    generations: u64,
    flights: HashMap<u64, Flight>,
    territories: HashMap<u64, Territory>,
    /// Writes under way to whole databases and whole origins; nothing is here without one.
    databases: HashMap<u64, u32>,
    origins: HashMap<u64, u32>,
    quarantine: BinaryHeap<Reverse<(Duration, Sent)>>,
    /// Scopes in `quarantine` for many writes together, and until when.
    merged: HashMap<Sent, Duration>,
    woken: Vec<Ticket>,
}

impl Leases {
    /// The generation that stored keys of `namespace` begin with; `None` if nothing is stored there.
    #[must_use]
    pub fn generation(&self, namespace: Namespace) -> Option<u64> {
        self.territories.get(&namespace.collection).map(|territory| territory.generation)
    }

    /// Takes a lease for a read of `key` that is about to go to the origin.
    ///
    /// With a `ticket` the caller is ready to wait: if a read of the key that may still fill it is
    /// under way, the caller is woken when that one is over.
    ///
    /// # Errors
    /// [`Closed`] says why nothing may be stored.
    pub fn take(&mut self, key: Key<'_>, ticket: Option<Ticket>) -> Result<Lease, Closed> {
        let namespace = key.namespace;
        if self.is_closed_above(namespace) {
            return Err(Closed::WritePending);
        }
        let events = self.events;
        let territory = self.territory(namespace).ok_or(Closed::NamespaceLimit)?;
        if territory.writes > 0 {
            return Err(Closed::WritePending);
        }
        if territory.character == Character::Derived {
            return Err(Closed::Derived);
        }
        let collection_revoked_at = territory.revoked_at;
        territory.leases += 1;
        let flight = self.flights.entry(key.hash).or_default();
        let refused = if flight.writes > 0 {
            Some(Closed::WritePending)
        } else {
            let good = flight.leased_at >= flight.revoked_at.max(collection_revoked_at);
            ticket.filter(|_| flight.leases > 0 && good && flight.waiters.len() < WAITERS_MAX).map(
                |ticket| {
                    flight.waiters.push(ticket);
                    Closed::FillPending
                },
            )
        };
        if let Some(closed) = refused {
            self.leave(namespace);
            return Err(closed);
        }
        flight.leases += 1;
        flight.leased_at = events;
        Ok(Lease { namespace, hash: key.hash, taken_at: events })
    }

    /// Gives the lease back with its reply in hand: the generation to store it under, or `None` if a
    /// write came between. Wakes who waited.
    pub fn redeem(&mut self, lease: Lease) -> Option<u64> {
        // Built with `RUSTFLAGS='--cfg enroute_broken_lease'` the cache stores late replies: the
        // history checker must find that. No other build contains it.
        let good = cfg!(enroute_broken_lease) || self.is_good(&lease);
        let generation = self.generation(lease.namespace);
        self.release(lease);
        generation.filter(|_| good)
    }

    /// Gives the lease back with nothing to store. Wakes who waited: they ask for themselves.
    #[allow(clippy::needless_pass_by_value, reason = "a lease can be given back once")]
    pub fn release(&mut self, lease: Lease) {
        if let Some(flight) = self.flights.get_mut(&lease.hash) {
            flight.leases -= 1;
            self.woken.append(&mut flight.waiters);
            if flight.leases == 0 && flight.writes == 0 {
                self.flights.remove(&lease.hash);
            }
        }
        self.leave(lease.namespace);
    }

    /// A write to `scope` is about to be sent: revokes every lease it can touch and closes the scope.
    pub fn write_sent(&mut self, scope: Sent) {
        self.events += 1;
        let events = self.events;
        match scope {
            Sent::Key { hash, .. } => {
                let flight = self.flights.entry(hash).or_default();
                flight.writes += 1;
                flight.revoked_at = events;
                self.woken.append(&mut flight.waiters);
            }
            Sent::Collection(namespace) => {
                self.generations += 1;
                let generation = self.generations;
                let territory = self.territories.entry(namespace.collection);
                let territory = territory.or_insert_with(|| Territory::new(namespace, generation));
                territory.writes += 1;
                territory.renew(generation, events);
            }
            Sent::Database { database, .. } => {
                *self.databases.entry(database).or_default() += 1;
                self.renew(|territory| territory.database == database);
            }
            Sent::Origin(origin) => {
                *self.origins.entry(origin).or_default() += 1;
                self.renew(|territory| territory.origin == origin);
            }
        }
    }

    /// Begins a generation for each collection that `is_touched`.
    fn renew(&mut self, is_touched: impl Fn(&Territory) -> bool) {
        for territory in self.territories.values_mut().filter(|territory| is_touched(territory)) {
            self.generations += 1;
            territory.renew(self.generations, self.events);
        }
    }

    /// The write to `scope` was answered, or its quarantine is over: opens the scope again.
    pub fn write_settled(&mut self, scope: Sent) {
        match scope {
            Sent::Key { hash, .. } => {
                if let Some(flight) = self.flights.get_mut(&hash) {
                    flight.writes -= 1;
                    if flight.leases == 0 && flight.writes == 0 {
                        self.flights.remove(&hash);
                    }
                }
            }
            Sent::Collection(namespace) => {
                if let Some(territory) = self.territories.get_mut(&namespace.collection) {
                    territory.writes -= 1;
                    let idle = territory.leases + territory.writes == 0;
                    if idle && self.territories.len() > NAMESPACES_MAX {
                        self.territories.remove(&namespace.collection);
                    }
                }
            }
            Sent::Database { database, .. } => open(&mut self.databases, database),
            Sent::Origin(origin) => open(&mut self.origins, origin),
        }
    }

    /// The answer to a write of `scope` will never come: keeps the scope closed until `until`,
    /// by when the origin has applied the write or will never do so.
    pub fn write_lost(&mut self, scope: Sent, until: Duration) {
        if self.quarantine.len() < QUARANTINE_MAX {
            self.quarantine.push(Reverse((until, scope)));
            return;
        }
        let merged = match scope {
            _ if self.merged.len() >= NAMESPACES_MAX => Sent::Origin(scope.origin()),
            Sent::Key { namespace, .. } => Sent::Collection(namespace),
            wider => wider,
        };
        match self.merged.get_mut(&merged) {
            Some(later) => *later = until.max(*later),
            None => {
                self.write_sent(merged);
                self.merged.insert(merged, until);
                self.quarantine.push(Reverse((until, merged)));
            }
        }
        self.write_settled(scope);
    }

    /// Ends the quarantines that are over at `now`.
    pub fn advance(&mut self, now: Duration) {
        while let Some(&Reverse((until, scope))) = self.quarantine.peek() {
            if until > now {
                break;
            }
            self.quarantine.pop();
            match self.merged.get(&scope) {
                Some(&later) if later > now => {
                    self.quarantine.push(Reverse((later, scope)));
                    continue;
                }
                Some(_) => self.merged.remove(&scope),
                None => None,
            };
            self.write_settled(scope);
        }
    }

    /// Records what the origin said about the namespace of `lease`, if that is still what it was
    /// when the lease was taken.
    pub fn learn(&mut self, lease: &Lease, character: Character) {
        if self.is_good(lease)
            && let Some(territory) = self.territories.get_mut(&lease.namespace.collection)
        {
            territory.character = character;
        }
    }

    /// What is known about `namespace`.
    #[must_use]
    pub fn character(&self, namespace: Namespace) -> Character {
        self.territories
            .get(&namespace.collection)
            .map_or(Character::Unknown, |territory| territory.character)
    }

    /// Is the write that was sent at event `sent_at` the only one under way on its key, and the
    /// newest? If that held when it was sent and holds when it is answered, no other write ran
    /// beside it and its value may be stored (write-allocate).
    #[must_use]
    pub fn is_sole_writer(&self, scope: Sent, sent_at: u64) -> bool {
        let Sent::Key { namespace, hash } = scope else { return false };
        let key_is_quiet = self
            .flights
            .get(&hash)
            .is_some_and(|flight| flight.writes == 1 && flight.revoked_at == sent_at);
        let collection_is_quiet =
            self.territories.get(&namespace.collection).is_some_and(|territory| {
                territory.writes == 0
                    && territory.revoked_at <= sent_at
                    && territory.character != Character::Derived
            });
        key_is_quiet && collection_is_quiet && !self.is_closed_above(namespace)
    }

    /// The number of write events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Who is to be told that a fill they waited for is over.
    pub fn woken(&mut self) -> &mut Vec<Ticket> {
        &mut self.woken
    }

    /// Is nothing under way at all? What a drained cache comes back to.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty()
            && self.databases.is_empty()
            && self.origins.is_empty()
            && self.territories.values().all(|territory| territory.leases + territory.writes == 0)
    }

    fn is_good(&self, lease: &Lease) -> bool {
        let after = |revoked_at: u64| lease.taken_at >= revoked_at;
        let flight = self.flights.get(&lease.hash);
        let territory = self.territories.get(&lease.namespace.collection);
        !self.is_closed_above(lease.namespace)
            && flight.is_some_and(|flight| flight.writes == 0 && after(flight.revoked_at))
            && territory
                .is_some_and(|territory| territory.writes == 0 && after(territory.revoked_at))
    }

    /// Is a write to the whole database or origin of `namespace` under way?
    fn is_closed_above(&self, namespace: Namespace) -> bool {
        self.databases.contains_key(&namespace.database)
            || self.origins.contains_key(&namespace.origin)
    }

    /// The record of `namespace`, made if there is room.
    fn territory(&mut self, namespace: Namespace) -> Option<&mut Territory> {
        if !self.territories.contains_key(&namespace.collection) {
            if self.territories.len() >= NAMESPACES_MAX {
                self.territories.retain(|_, territory| territory.leases + territory.writes > 0);
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

/// One of the writes to what `closed` counts them of is settled.
fn open(closed: &mut HashMap<u64, u32>, scope: u64) {
    if let Some(writes) = closed.get_mut(&scope) {
        *writes -= 1;
        if *writes == 0 {
            closed.remove(&scope);
        }
    }
}

impl Territory {
    fn new(namespace: Namespace, generation: u64) -> Self {
        let Namespace { origin, database, .. } = namespace;
        let character = Character::Unknown;
        Self { origin, database, generation, character, leases: 0, writes: 0, revoked_at: 0 }
    }

    /// Leaves the old generation behind, with what was known of it.
    fn renew(&mut self, generation: u64, event: u64) {
        self.generation = generation;
        self.revoked_at = event;
        self.character = Character::Unknown;
    }
}

#[cfg(test)]
mod tests;
