//! SIEVE: like Clock, but items that stay keep their place, so new items are examined soon.
//!
//! **Idea.** A hit sets one bit. The hand moves from the tail to the head and around again; an item
//! whose bit is set loses the bit and keeps its place, the first item without it is evicted. New
//! items enter at the head, so old popular items collect at the tail, and items that are requested
//! only once are evicted soon after their insertion. The authors find it better than LRU on most
//! web and key-value traces, most clearly if many items are read only once, and call it not
//! scan-resistant, for block traces. A plain scan has no effect: while nothing else is read, the
//! hand keeps its distance from the head and evicts one scanned item for each new one.
//!
//! **Source.** Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU: an efficient
//! turn-key eviction algorithm for web caches", NSDI 2024, algorithm 1.
//!
//! **Deviations.** None.

use super::queue::Queue;
use super::{Arena, Id, NONE, Policy};

const READ: u8 = 1;

#[derive(Debug)]
pub(super) struct Sieve {
    queue: Queue,
    /// The next item to examine; `NONE` starts again at the tail.
    hand: Id,
}

impl Default for Sieve {
    fn default() -> Self {
        Self { queue: Queue::default(), hand: NONE }
    }
}

impl Sieve {
    /// Chooses as Clock does: the item that entered first of those that were not read since it was
    /// their turn. Those that were read enter again, so nothing stays for good that is not read, as
    /// it does under SIEVE behind the hand.
    pub(super) fn victim_in_turn<A: Arena>(&mut self, arena: &mut A) -> Option<Id> {
        loop {
            let id = self.queue.tail();
            if id == NONE {
                return None;
            }
            self.on_remove(arena, id);
            if arena.marks(id) != READ {
                return Some(id);
            }
            arena.set_marks(id, 0);
            self.queue.push(arena, id);
        }
    }
}

impl<A: Arena> Policy<A> for Sieve {
    fn on_insert(&mut self, arena: &mut A, id: Id) {
        self.queue.push(arena, id);
    }

    fn on_hit(&mut self, arena: &mut A, id: Id) {
        arena.set_marks(id, READ);
    }

    fn on_remove(&mut self, arena: &mut A, id: Id) {
        if self.hand == id {
            self.hand = arena.prev(id);
        }
        self.queue.unlink(arena, id);
    }

    fn on_move(&mut self, arena: &mut A, from: Id, to: Id) {
        if self.hand == from {
            self.hand = to;
        }
        self.queue.relink(arena, to);
    }

    fn victim(&mut self, arena: &mut A) -> Option<Id> {
        loop {
            let id = if self.hand == NONE { self.queue.tail() } else { self.hand };
            if id == NONE {
                return None;
            }
            self.hand = arena.prev(id);
            if arena.marks(id) != READ {
                self.queue.unlink(arena, id);
                return Some(id);
            }
            arena.set_marks(id, 0);
        }
    }
}
