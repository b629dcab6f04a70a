//! Clock: oldest first; an item that was read since the last pass stays for another round.
//!
//! **Idea.** Nearly the decisions of LRU at the cost of FIFO: a hit sets one bit. When room is
//! needed, the hand passes over the items in the order of insertion; an item whose bit is set loses
//! the bit and stays for another round, the first item without it is evicted.
//!
//! **Source.** Corbató, "A paging experiment with the Multics system", MIT, 1968.
//!
//! **Deviations.** The ring is implemented as a queue (FIFO-reinsertion): an item that the hand
//! passes moves from the tail to the head, and the hand is the tail. The sequence of victims is the
//! same. A new item's bit is clear.

use super::queue::Queue;
use super::{Arena, Id, Policy};

const READ: u8 = 1;

#[derive(Debug, Default)]
pub(super) struct Clock {
    queue: Queue,
}

impl<A: Arena> Policy<A> for Clock {
    fn on_insert(&mut self, arena: &mut A, id: Id) {
        self.queue.push(arena, id);
    }

    fn on_hit(&mut self, arena: &mut A, id: Id) {
        arena.set_marks(id, READ);
    }

    fn on_remove(&mut self, arena: &mut A, id: Id) {
        self.queue.unlink(arena, id);
    }

    fn on_move(&mut self, arena: &mut A, _: Id, to: Id) {
        self.queue.relink(arena, to);
    }

    fn victim(&mut self, arena: &mut A) -> Option<Id> {
        loop {
            let id = self.queue.pop(arena)?;
            if arena.marks(id) != READ {
                return Some(id);
            }
            arena.set_marks(id, 0);
            self.queue.push(arena, id);
        }
    }
}
