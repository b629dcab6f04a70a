//! Items in a slab, for caches that hold no values.

use slab::Slab;

use super::{Arena, Id};

/// The hash of an item, and its links and marks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Links {
    pub(crate) hash: u32,
    prev: Id,
    next: Id,
    marks: u8,
}

impl Links {
    pub(crate) fn new(hash: u32) -> Self {
        Self { hash, ..Self::default() }
    }
}

/// An item that has them.
pub(crate) trait Linked {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

impl Linked for Links {
    fn links(&self) -> &Links {
        self
    }

    fn links_mut(&mut self) -> &mut Links {
        self
    }
}

impl<T: Linked> Arena for Slab<T> {
    fn prev(&self, id: Id) -> Id {
        self[id as usize].links().prev
    }

    fn set_prev(&mut self, id: Id, prev: Id) {
        self[id as usize].links_mut().prev = prev;
    }

    fn next(&self, id: Id) -> Id {
        self[id as usize].links().next
    }

    fn set_next(&mut self, id: Id, next: Id) {
        self[id as usize].links_mut().next = next;
    }

    fn marks(&self, id: Id) -> u8 {
        self[id as usize].links().marks
    }

    fn set_marks(&mut self, id: Id, marks: u8) {
        self[id as usize].links_mut().marks = marks;
    }

    fn hash(&self, id: Id) -> u32 {
        self[id as usize].links().hash
    }
}
