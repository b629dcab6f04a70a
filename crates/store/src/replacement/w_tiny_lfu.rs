//! W-TinyLFU: a small window in front of a main part, which admits an item only if it is requested
//! more often than the one it would evict.
//!
//! **Idea.** Combines recency and frequency. New items enter a window of a hundredth of the cache,
//! an LRU queue. An item that leaves the window enters the main part only if, in a sketch of recent
//! frequencies, it has a higher count than the item that the main part would evict next. The main
//! part is a segmented LRU: a hit moves an item from probation to protection, which holds at most
//! four fifths. Scans and items that are read once do not enter the main part; it adapts late to a
//! sudden change of popularity.
//!
//! **Source.** Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy",
//! ACM Transactions on Storage 13(4), 2017, section 4 (shares of 1 %, and 20 % to 80 %); the order
//! of events is that of its author's library Caffeine.
//!
//! **Deviations.**
//! - Shares are of items, not bytes. The sketch is sized for the stored items, because a budget of
//!   bytes does not determine a capacity, and it ages in portions (`sketch.rs`).
//! - A miss is counted when the item is inserted, as in Caffeine: a key that was requested and not
//!   found is unknown here.
//! - The window's share does not adapt.

use super::queue::Queue;
use super::sketch::Sketch;
use super::{Arena, Id, NONE, Policy};

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

pub(super) struct WTinyLfu {
    /// The queue of each mark.
    queues: [Queue; 3],
    sketch: Sketch,
    capacity: usize,
}

impl Default for WTinyLfu {
    fn default() -> Self {
        Self { queues: Default::default(), sketch: Sketch::default(), capacity: usize::MAX }
    }
}

impl WTinyLfu {
    fn len(&self, part: u8) -> usize {
        self.queues[usize::from(part)].len()
    }

    fn held(&self) -> usize {
        self.queues.iter().map(Queue::len).sum()
    }

    fn window_max(&self) -> usize {
        (self.capacity / 100).max(1)
    }

    fn protected_max(&self) -> usize {
        (self.capacity - self.window_max().min(self.capacity)) / 5 * 4
    }

    fn enter(&mut self, arena: &mut impl Arena, part: u8, id: Id) {
        arena.set_marks(id, part);
        self.queues[usize::from(part)].push(arena, id);
    }

    fn leave(&mut self, arena: &mut impl Arena, id: Id) {
        self.queues[usize::from(arena.marks(id))].unlink(arena, id);
    }

    fn transfer(&mut self, arena: &mut impl Arena, id: Id, to: u8) {
        self.leave(arena, id);
        self.enter(arena, to, id);
    }

    fn protect(&mut self, arena: &mut impl Arena, id: Id) {
        self.transfer(arena, id, PROTECTED);
        while self.len(PROTECTED) > self.protected_max() {
            let least_recent = self.queues[usize::from(PROTECTED)].tail();
            self.transfer(arena, least_recent, PROBATION);
        }
    }

    /// Returns the next item that the main part would evict, or `NONE`.
    fn main_victim(&self) -> Id {
        match self.queues[usize::from(PROBATION)].tail() {
            NONE => self.queues[usize::from(PROTECTED)].tail(),
            id => id,
        }
    }

    fn duel(&mut self, arena: &mut impl Arena, candidate: Id, victim: Id) -> Id {
        let frequency = |id| self.sketch.estimate(arena.hash(id));
        if frequency(candidate) <= frequency(victim) {
            return candidate;
        }
        self.transfer(arena, candidate, PROBATION);
        victim
    }
}

impl<A: Arena> Policy<A> for WTinyLfu {
    fn set_capacity(&mut self, items: usize, _: usize) {
        self.capacity = items;
    }

    fn on_incoming(&mut self, hash: u32) {
        self.sketch.add(hash, self.held());
    }

    fn on_insert(&mut self, arena: &mut A, id: Id) {
        self.enter(arena, WINDOW, id);
        if self.len(WINDOW) > self.window_max() {
            let candidate = self.queues[usize::from(WINDOW)].tail();
            self.transfer(arena, candidate, PROBATION);
        }
    }

    fn on_hit(&mut self, arena: &mut A, id: Id) {
        self.sketch.add(arena.hash(id), self.held());
        match arena.marks(id) {
            PROBATION => self.protect(arena, id),
            part => self.queues[usize::from(part)].refresh(arena, id),
        }
    }

    fn on_remove(&mut self, arena: &mut A, id: Id) {
        self.leave(arena, id);
    }

    fn on_move(&mut self, arena: &mut A, _: Id, to: Id) {
        self.queues[usize::from(arena.marks(to))].relink(arena, to);
    }

    fn victim(&mut self, arena: &mut A) -> Option<Id> {
        let candidate = self.queues[usize::from(WINDOW)].tail();
        let id = match self.main_victim() {
            NONE => candidate,
            // The window is full: the next item would push its last item out.
            victim if self.len(WINDOW) >= self.window_max() => self.duel(arena, candidate, victim),
            victim => victim,
        };
        (id != NONE).then(|| {
            self.leave(arena, id);
            id
        })
    }

    fn trim(&mut self) -> bool {
        self.sketch.trim(self.held())
    }

    fn bytes(&self) -> usize {
        self.sketch.bytes()
    }
}
