//! Replacement policies: they select the item to evict when there is no room.
//!
//! A [`Policy`] keeps its queues as links inside the items themselves, which it reaches through an
//! [`Arena`]. It needs only the eight bytes of links and four bits of marks in every header, and
//! its tests need no memory tier. Each policy is one file, which begins with the idea.
//!
//! Rules between a policy and its owner:
//! - every item is announced once by [`Policy::on_insert`] and leaves once, by [`Policy::victim`]
//!   or [`Policy::on_remove`];
//! - writing a new value under a key that is held is a use, [`Policy::on_hit`];
//! - a policy knows only the `hash` of a key: two keys with the same 32-bit hash share a ghost and
//!   a frequency, which makes decisions slightly worse and never incorrect.

mod clock;
mod fifo;
mod ghost;
mod hull;
mod links;
mod lru;
mod queue;
mod s3_fifo;
mod sieve;
mod sketch;
#[cfg(test)]
mod tests;
mod w_tiny_lfu;

use crate::config::Replacement;
pub(crate) use links::{Linked, Links};
pub(crate) use sketch::Sketch;

/// Names an item to a policy; in the memory tier, its location.
pub(crate) type Id = u32;

/// No item.
pub(crate) const NONE: Id = Id::MAX;

/// Storage of the links and marks of items.
pub(crate) trait Arena {
    /// The neighbour towards the head of the queue, where items enter.
    fn prev(&self, id: Id) -> Id;
    fn set_prev(&mut self, id: Id, prev: Id);
    /// The neighbour towards the tail of the queue, where items leave.
    fn next(&self, id: Id) -> Id;
    fn set_next(&mut self, id: Id, next: Id);
    /// Four bits for the policy's own use.
    fn marks(&self, id: Id) -> u8;
    fn set_marks(&mut self, id: Id, marks: u8);
    fn hash(&self, id: Id) -> u32;
}

/// Orders items for eviction.
pub(crate) trait Policy<A: Arena>: Send {
    /// Sets the number of items that fit, as far as known: the limit of items, or the byte budget
    /// divided by the present mean size, and the byte budget. Policies that divide the cache divide
    /// the number of items.
    fn set_capacity(&mut self, items: usize, bytes: usize) {
        let _ = (items, bytes);
    }

    /// An item that is not stored is about to be inserted; room is made for it next.
    fn on_incoming(&mut self, hash: u32) {
        let _ = hash;
    }

    /// Whether the incoming item is to be stored, asked after [`Policy::on_incoming`] and only if
    /// there is little room left, or none.
    fn admits(&mut self, hash: u32) -> bool {
        let _ = hash;
        true
    }

    /// Whether it refuses nearly all items for which there is little room.
    fn is_steady(&self) -> bool {
        false
    }

    /// A new item was inserted; its links and marks are unset.
    fn on_insert(&mut self, arena: &mut A, id: Id);

    /// An item was read, or its value was replaced.
    fn on_hit(&mut self, arena: &mut A, id: Id);

    /// Notes that an item was removed or has expired.
    fn on_remove(&mut self, arena: &mut A, id: Id);

    /// The item `from`, with its links and marks, is at `to` now.
    fn on_move(&mut self, arena: &mut A, from: Id, to: Id);

    /// Chooses the item to evict and removes it from the policy; `None` when there is none.
    fn victim(&mut self, arena: &mut A) -> Option<Id>;

    /// Releases a bounded part of tables larger than the capacity requires; false if there was
    /// nothing to release.
    fn trim(&mut self) -> bool {
        false
    }

    /// Bytes of memory besides the items.
    fn bytes(&self) -> usize {
        0
    }
}

/// The policy of that name.
pub(crate) fn policy<A: Arena>(replacement: Replacement) -> Box<dyn Policy<A>> {
    match replacement {
        Replacement::Fifo => Box::new(fifo::Fifo::default()),
        Replacement::Lru => Box::new(lru::Lru::default()),
        Replacement::Clock => Box::new(clock::Clock::default()),
        Replacement::Sieve => Box::new(sieve::Sieve::default()),
        Replacement::Hull => Box::new(hull::Hull::default()),
        Replacement::S3Fifo => Box::new(s3_fifo::S3Fifo::default()),
        Replacement::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::default()),
    }
}
