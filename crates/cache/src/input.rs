//! Bytes of one side that could not be handled yet.

use std::mem;

/// Bytes that arrived and wait: for the rest of their message, or for room.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    taken: usize,
}

impl Input {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Takes all bytes, with `bytes` appended; [`Self::put_back`] returns the rest.
    pub(crate) fn take_with(&mut self, bytes: &[u8]) -> Self {
        let mut all = mem::take(self);
        all.bytes.extend_from_slice(bytes);
        all
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Puts back `all`, of which `taken` more bytes have been handled.
    pub(crate) fn put_back(&mut self, mut all: Self, taken: usize) {
        all.taken += taken;
        if all.taken >= all.bytes.len() {
            return;
        }
        // Moving the waiting bytes only if they are the smaller half keeps the total cost of moves
        // linear.
        if all.taken * 2 >= all.bytes.len() {
            all.bytes.drain(..all.taken);
            all.taken = 0;
        }
        *self = all;
    }

    /// Bytes of memory it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    #[test]
    fn what_is_left_is_what_was_not_taken() {
        let mut input = Input::default();
        input.keep(b"0123456789");
        for (more, taken, left) in [("ab", 3, "3456789ab"), ("", 5, "89ab"), ("c", 5, "")] {
            let all = input.take_with(more.as_bytes());
            input.put_back(all, taken);
            assert_eq!(input.waiting(), left.as_bytes());
        }
        assert!(input.is_empty());
    }
}
