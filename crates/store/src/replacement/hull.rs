//! Hull: SIEVE, with a hit ratio that has no steps over the size of the cache.
//!
//! **Idea.** What is asked for in a circle larger than the cache is evicted before its next use,
//! under SIEVE as under LRU: the hit ratio is nothing until everything fits. A cache that keeps
//! *some* of it has the hits of that part, which is the straight line below the step: the convex
//! hull of the curve. A full cache therefore treats newcomers in one of the ways of [`Way`]: as
//! SIEVE does, or such that what is held stays. How much a way answers is not derived from a curve:
//! each runs in a miniature on a sample of the keys, and the best is taken (`hull/duel.rs`).
//!
//! **Source.** Beckmann, Sanchez, "Talus: a simple way to remove cliffs in cache performance", HPCA
//! 2015, for the aim. Qureshi, Jaleel, Patt, Steely, Emer, "Adaptive insertion policies for high
//! performance caching", ISCA 2007, section 3, for newcomers few of which stay, and for the duel.
//!
//! **Deviations.** Talus divides the keys among two partitions, whose sizes are the ends of a
//! segment of the hull. It needs the curve of the policy itself, and a partition a few percent too
//! small has no hits at all. Here no size must be known: of items that stay, each is as good as
//! another, and a queue for the other items, [`Way::Steady`], has the hits of the lower end.

mod duel;
#[cfg(test)]
mod tests;

use super::queue::Queue;
use super::sieve::Sieve;
use super::{Arena, Id, Policy};
use duel::Duel;

/// The item was read since it was last examined.
const READ: u8 = 1;
/// The item is in the passing queue.
const PASSES: u8 = 2;

#[derive(Default)]
pub(super) struct Hull {
    parts: Parts,
    duel: Duel,
    /// Where the next item enters.
    place: Place,
}

/// How a full cache treats newcomers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All enter, and SIEVE chooses what leaves.
    Sieve,
    /// One in 256 stays, in place of an item unread for a whole turn of the queue. The others pass
    /// through a queue that has one in `passing` of all items; 0 refuses them.
    Steady { passing: usize },
}

/// Where an item enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Main,
    Passing,
    Refused,
}

impl Way {
    /// Where a newcomer enters; `chance` is a random number.
    fn place(self, chance: u32) -> Place {
        match self {
            Self::Sieve => Place::Main,
            Self::Steady { .. } if chance >> 24 == 0 => Place::Main,
            Self::Steady { passing: 0 } => Place::Refused,
            Self::Steady { .. } => Place::Passing,
        }
    }

    /// Length of the passing queue of a cache of `items`.
    fn passing_max(self, items: usize) -> usize {
        match self {
            Self::Steady { passing } if passing > 0 => items / passing,
            _ => 0,
        }
    }
}

/// The queues of a cache.
#[derive(Debug, Default)]
struct Parts {
    main: Sieve,
    passing: Queue,
}

impl Parts {
    fn enter<A: Arena>(&mut self, arena: &mut A, id: Id, place: Place) {
        if place == Place::Passing {
            arena.set_marks(id, PASSES);
            self.passing.push(arena, id);
        } else {
            self.main.on_insert(arena, id);
        }
    }

    fn leave<A: Arena>(&mut self, arena: &mut A, id: Id) {
        if arena.marks(id) & PASSES != 0 {
            self.passing.unlink(arena, id);
        } else {
            self.main.on_remove(arena, id);
        }
    }

    fn relocate<A: Arena>(&mut self, arena: &mut A, from: Id, to: Id) {
        if arena.marks(to) & PASSES != 0 {
            self.passing.relink(arena, to);
        } else {
            self.main.on_move(arena, from, to);
        }
    }

    /// Chooses the item that makes room for one that enters at `place`, in a cache of `items`.
    fn victim<A: Arena>(
        &mut self,
        arena: &mut A,
        way: Way,
        place: Place,
        items: usize,
    ) -> Option<Id> {
        let passing = self.passing.len() + usize::from(place == Place::Passing);
        let passed = if passing > way.passing_max(items) { self.passing.pop(arena) } else { None };
        passed
            .or_else(|| match way {
                Way::Sieve => self.main.victim(arena),
                Way::Steady { .. } => self.main.victim_in_turn(arena),
            })
            .or_else(|| self.passing.pop(arena))
    }
}

impl<A: Arena> Policy<A> for Hull {
    fn set_capacity(&mut self, _: usize, bytes: usize) {
        self.duel.set_bytes(bytes);
    }

    fn on_incoming(&mut self, hash: u32) {
        self.place = Place::Main;
        self.duel.note(hash, false);
    }

    fn admits(&mut self, hash: u32) -> bool {
        match self.duel.place(hash) {
            Place::Refused => false,
            place => {
                self.place = place;
                true
            }
        }
    }

    fn is_steady(&self) -> bool {
        self.duel.way() == Way::Steady { passing: 0 }
    }

    fn on_insert(&mut self, arena: &mut A, id: Id) {
        self.parts.enter(arena, id, std::mem::take(&mut self.place));
        self.duel.held += 1;
    }

    fn on_hit(&mut self, arena: &mut A, id: Id) {
        arena.set_marks(id, arena.marks(id) | READ);
        self.duel.note(arena.hash(id), true);
    }

    fn on_remove(&mut self, arena: &mut A, id: Id) {
        self.parts.leave(arena, id);
        self.duel.held -= 1;
    }

    fn on_move(&mut self, arena: &mut A, from: Id, to: Id) {
        self.parts.relocate(arena, from, to);
    }

    fn victim(&mut self, arena: &mut A) -> Option<Id> {
        let victim = self.parts.victim(arena, self.duel.way(), self.place, self.duel.held);
        self.duel.note_full();
        self.duel.held -= usize::from(victim.is_some());
        victim
    }

    fn bytes(&self) -> usize {
        self.duel.bytes
    }
}
