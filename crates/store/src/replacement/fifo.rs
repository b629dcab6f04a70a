//! FIFO: the item that was inserted first is evicted first.
//!
//! **Idea.** No bookkeeping on a hit, and items are evicted in the order of insertion, which suits
//! the log. It evicts popular items as fast as the rest, so it is the baseline for the other
//! policies, not a good default.
//!
//! **Source.** Folklore; the baseline of every paper named in this directory.
//!
//! **Deviations.** None.

use super::queue::Queue;
use super::{Arena, Id, Policy};

#[derive(Debug, Default)]
pub(super) struct Fifo {
    queue: Queue,
}

impl<A: Arena> Policy<A> for Fifo {
    fn on_insert(&mut self, arena: &mut A, id: Id) {
        self.queue.push(arena, id);
    }

    fn on_hit(&mut self, _: &mut A, _: Id) {}

    fn on_remove(&mut self, arena: &mut A, id: Id) {
        self.queue.unlink(arena, id);
    }

    fn on_move(&mut self, arena: &mut A, _: Id, to: Id) {
        self.queue.relink(arena, to);
    }

    fn victim(&mut self, arena: &mut A) -> Option<Id> {
        self.queue.pop(arena)
    }
}
