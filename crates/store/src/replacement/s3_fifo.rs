//! S3-FIFO: three queues; a new item enters the main queue only if it is read in a small one.
//!
//! **Idea.** In most traces most items are requested only once during their time in the cache. New
//! items therefore enter a small queue of a tenth of the cache. An item that is not read more than
//! once there is evicted early, and only its hash stays, in a ghost queue. An item that is read
//! more often, or requested again while its hash is in the ghost queue, enters the main queue,
//! which works as Clock with a counter up to three. Scans pass through the small queue and do not
//! affect the main one.
//!
//! **Source.** Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023, algorithm 1.
//!
//! **Deviations.**
//! - Shares are of items, not bytes: a tenth of the items that fit.
//! - The ghost queue holds the last evictions from the small queue, up to the number of items that
//!   the main queue may have; the place of a hash that was requested again is not reused. This
//!   bounds its memory. It identifies items by a 32-bit hash.
//! - One call finds one victim. If algorithm 1 fills the main queue beyond its share, it evicts
//!   there and then also from the small queue; this implementation stops after the first eviction.

use super::ghost::Ghost;
use super::queue::Queue;
use super::{Arena, Id, Policy};

const FREQUENCY: u8 = 0b11;
const MAIN: u8 = 0b100;

pub(super) struct S3Fifo {
    small: Queue,
    main: Queue,
    ghost: Ghost,
    capacity: usize,
}

impl Default for S3Fifo {
    fn default() -> Self {
        Self {
            small: Queue::default(),
            main: Queue::default(),
            ghost: Ghost::default(),
            capacity: usize::MAX,
        }
    }
}

impl S3Fifo {
    fn queue(&mut self, marks: u8) -> &mut Queue {
        if marks & MAIN != 0 { &mut self.main } else { &mut self.small }
    }

    fn main_max(&self) -> usize {
        self.capacity - self.capacity / 10
    }

    fn evict_small(&mut self, arena: &mut impl Arena) -> Option<Id> {
        while let Some(id) = self.small.pop(arena) {
            if arena.marks(id) <= 1 {
                self.ghost.push(arena.hash(id), self.main_max());
                return Some(id);
            }
            arena.set_marks(id, MAIN);
            self.main.push(arena, id);
            if self.main.len() > self.main_max() {
                return self.evict_main(arena);
            }
        }
        None
    }

    fn evict_main(&mut self, arena: &mut impl Arena) -> Option<Id> {
        loop {
            let id = self.main.pop(arena)?;
            let marks = arena.marks(id);
            if marks & FREQUENCY == 0 {
                return Some(id);
            }
            arena.set_marks(id, marks - 1);
            self.main.push(arena, id);
        }
    }
}

impl<A: Arena> Policy<A> for S3Fifo {
    fn set_capacity(&mut self, items: usize, _: usize) {
        self.capacity = items;
    }

    fn on_insert(&mut self, arena: &mut A, id: Id) {
        let marks = if self.ghost.take(arena.hash(id)) { MAIN } else { 0 };
        arena.set_marks(id, marks);
        self.queue(marks).push(arena, id);
    }

    fn on_hit(&mut self, arena: &mut A, id: Id) {
        let marks = arena.marks(id);
        if marks & FREQUENCY < FREQUENCY {
            arena.set_marks(id, marks + 1);
        }
    }

    fn on_remove(&mut self, arena: &mut A, id: Id) {
        self.queue(arena.marks(id)).unlink(arena, id);
    }

    fn on_move(&mut self, arena: &mut A, _: Id, to: Id) {
        self.queue(arena.marks(to)).relink(arena, to);
    }

    fn victim(&mut self, arena: &mut A) -> Option<Id> {
        if self.small.len() >= self.capacity.div_ceil(10) || self.main.len() == 0 {
            // All items of the small queue may move to the main one.
            self.evict_small(arena).or_else(|| self.evict_main(arena))
        } else {
            self.evict_main(arena)
        }
    }

    fn trim(&mut self) -> bool {
        self.ghost.trim(self.main_max())
    }

    fn bytes(&self) -> usize {
        self.ghost.bytes()
    }
}
