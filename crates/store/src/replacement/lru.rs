//! LRU: the item unused for the longest time is evicted first.
//!
//! **Idea.** Recently used items will be used soon. It adapts at once when popularity changes, but
//! a single scan, or a loop slightly larger than the cache, evicts everything; and every hit
//! rewrites the links of four items, three of them cold.
//!
//! **Source.** Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies",
//! IBM Systems Journal 9(2), 1970: the stack algorithm.
//!
//! **Deviations.** None.

use super::queue::Queue;
use super::{Arena, Id, Policy};

#[derive(Debug, Default)]
pub(super) struct Lru {
    queue: Queue,
}

impl<A: Arena> Policy<A> for Lru {
    fn on_insert(&mut self, arena: &mut A, id: Id) {
        self.queue.push(arena, id);
    }

    fn on_hit(&mut self, arena: &mut A, id: Id) {
        self.queue.refresh(arena, id);
    }

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
