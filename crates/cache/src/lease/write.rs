//! The life of a write in the lease table: sent, settled or lost, and the quarantine of those lost.

use std::{cmp::Reverse, time::Duration};

use hashbrown::HashMap;

use super::{Character, Leases, NAMESPACES_MAX, Outcome, QUARANTINE_MAX, Territory, Writes};
use crate::key::{Namespace, Sent};

impl Leases {
    /// A write to `scope` is about to be sent: revokes every lease it can touch and closes the
    /// scope.
    pub fn write_sent(&mut self, scope: Sent) {
        self.events += 1;
        let events = self.events;
        match scope {
            Sent::Key { hash, .. } => {
                let flight = self.flights.entry(hash).or_default();
                flight.writes.sent += 1;
                flight.revoked_at = events;
                self.woken.append(&mut flight.waiters);
                self.key_writes += 1;
            }
            Sent::Collection(namespace) => {
                let territory = self.territories.entry(namespace.collection);
                let generations = &mut self.generations;
                let territory = territory.or_insert_with(|| {
                    *generations += 1;
                    Territory::new(namespace, *generations)
                });
                territory.writes.sent += 1;
                territory.revoked_at = events;
            }
            Sent::Database { database, .. } => {
                self.databases.entry(database).or_default().sent += 1;
                self.territories_of(scope).for_each(|territory| territory.revoked_at = events);
            }
            Sent::Origin(origin) => {
                self.origins.entry(origin).or_default().sent += 1;
                self.territories_of(scope).for_each(|territory| territory.revoked_at = events);
            }
        }
    }

    /// Notes that the write to `scope` was answered, and opens the scope again. The caller drops
    /// the entry of a written key; a wider scope gets a new generation here.
    pub fn write_settled(&mut self, scope: Sent, outcome: Outcome) {
        if outcome == Outcome::Applied {
            self.renew(scope);
        }
        match scope {
            Sent::Key { hash, .. } => {
                self.key_writes -= 1;
                if let Some(flight) = self.flights.get_mut(&hash) {
                    flight.writes.sent -= 1;
                    if flight.leases == 0 && flight.writes.are_none() {
                        self.flights.remove(&hash);
                    }
                }
            }
            Sent::Collection(namespace) => {
                if let Some(territory) = self.territories.get_mut(&namespace.collection) {
                    territory.writes.sent -= 1;
                    if territory.is_idle() && self.territories.len() > NAMESPACES_MAX {
                        self.territories.remove(&namespace.collection);
                    }
                }
            }
            Sent::Database { database, .. } => open(&mut self.databases, database),
            Sent::Origin(origin) => open(&mut self.origins, origin),
        }
    }

    /// Notes that the answer to a write of `scope` will never arrive: keeps the scope closed until
    /// `until`, by when the origin has applied the write or will never do so. Entries are dropped
    /// as by [`Self::write_settled`].
    pub fn write_lost(&mut self, scope: Sent, until: Duration) {
        self.renew(scope);
        if self.quarantine.len() < QUARANTINE_MAX {
            self.count_lost(scope);
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
                self.count_lost(merged);
                self.merged.insert(merged, until);
                self.quarantine.push(Reverse((until, merged)));
            }
        }
        // The entries that it can have touched are dropped, and `merged` keeps its scope closed.
        self.write_settled(scope, Outcome::Refused);
    }

    fn count_lost(&mut self, scope: Sent) {
        if let Some(writes) = self.writes(scope) {
            writes.lost += 1;
        }
    }

    fn writes(&mut self, scope: Sent) -> Option<&mut Writes> {
        match scope {
            Sent::Key { hash, .. } => self.flights.get_mut(&hash).map(|flight| &mut flight.writes),
            Sent::Collection(Namespace { collection, .. }) => {
                self.territories.get_mut(&collection).map(|territory| &mut territory.writes)
            }
            Sent::Database { database, .. } => self.databases.get_mut(&database),
            Sent::Origin(origin) => self.origins.get_mut(&origin),
        }
    }

    /// Ends the quarantines that have elapsed at `now`.
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
            if let Some(writes) = self.writes(scope) {
                writes.lost -= 1;
            }
            // It was dropped when it was lost, and nothing has filled since.
            self.write_settled(scope, Outcome::Refused);
        }
    }

    /// Makes the entries in `scope` unreachable, if the scope is wider than a key.
    fn renew(&mut self, scope: Sent) {
        let mut generation = self.generations;
        for territory in self.territories_of(scope) {
            generation += 1;
            territory.generation = generation;
            territory.character = Character::Unknown;
        }
        self.generations = generation;
    }

    /// The collections that `scope` covers whole.
    fn territories_of(&mut self, scope: Sent) -> impl Iterator<Item = &mut Territory> {
        let (one, many) = match scope {
            Sent::Key { .. } => (None, None),
            Sent::Collection(namespace) => (self.territories.get_mut(&namespace.collection), None),
            Sent::Database { .. } | Sent::Origin(_) => (None, Some(self.territories.values_mut())),
        };
        let is_covered = move |territory: &&mut Territory| match scope {
            Sent::Database { database, .. } => territory.database == database,
            _ => territory.origin == scope.origin(),
        };
        one.into_iter().chain(many.into_iter().flatten().filter(is_covered))
    }
}

/// Notes that one of the writes that `closed` counts for `scope` is settled.
fn open(closed: &mut HashMap<u64, Writes>, scope: u64) {
    if let Some(writes) = closed.get_mut(&scope) {
        writes.sent -= 1;
        if writes.are_none() {
            closed.remove(&scope);
        }
    }
}
