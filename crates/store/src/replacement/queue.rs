//! A doubly linked queue with its links in the items.

use super::{Arena, Id, NONE};

/// Items enter at the head and, as a rule, leave at the tail.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    head: Id,
    tail: Id,
    len: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The item that entered first, or `NONE`.
    pub(super) fn tail(&self) -> Id {
        self.tail
    }

    pub(super) fn push(&mut self, arena: &mut impl Arena, id: Id) {
        arena.set_prev(id, NONE);
        arena.set_next(id, self.head);
        match self.head {
            NONE => self.tail = id,
            head => arena.set_prev(head, id),
        }
        self.head = id;
        self.len += 1;
    }

    pub(super) fn unlink(&mut self, arena: &mut impl Arena, id: Id) {
        let (prev, next) = (arena.prev(id), arena.next(id));
        self.join(arena, prev, next);
        self.len -= 1;
    }

    pub(super) fn pop(&mut self, arena: &mut impl Arena) -> Option<Id> {
        let tail = self.tail;
        (tail != NONE).then(|| {
            self.unlink(arena, tail);
            tail
        })
    }

    /// Moves an item to the head.
    pub(super) fn refresh(&mut self, arena: &mut impl Arena, id: Id) {
        if self.head != id {
            self.unlink(arena, id);
            self.push(arena, id);
        }
    }

    /// Points the neighbours of an item that moved at its new place.
    pub(super) fn relink(&mut self, arena: &mut impl Arena, to: Id) {
        let (prev, next) = (arena.prev(to), arena.next(to));
        match prev {
            NONE => self.head = to,
            prev => arena.set_next(prev, to),
        }
        match next {
            NONE => self.tail = to,
            next => arena.set_prev(next, to),
        }
    }

    fn join(&mut self, arena: &mut impl Arena, prev: Id, next: Id) {
        match prev {
            NONE => self.head = next,
            prev => arena.set_next(prev, next),
        }
        match next {
            NONE => self.tail = prev,
            next => arena.set_prev(next, prev),
        }
    }
}
