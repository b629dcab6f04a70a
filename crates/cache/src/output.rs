//! Bytes to be written to one side.

/// Bytes to be written to one side, as far as the socket accepts them.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
}

/// A buffer is kept up to this size, also when little in it waits: for a large value, new memory
/// costs more than copying the value does. See [`Output::borrow_from`].
const KEPT_BYTES: usize = 2 << 20;

/// Written bytes are removed from the buffer once there are at least this many, and more than
/// waiting bytes.
const MOVED_BYTES_MIN: usize = 1_024;

impl Output {
    /// Takes a buffer to write into, unless it has one; returns the buffer's size. An idle
    /// connection holds none: its worker lends one while it is served and takes it back when
    /// everything is written.
    pub fn borrow_from(&mut self, spare: &mut Vec<Vec<u8>>) -> usize {
        if self.bytes.capacity() > 0 {
            return 0;
        }
        self.bytes = spare.pop().unwrap_or_default();
        self.bytes.capacity()
    }

    /// Returns the buffer for reuse, if everything in it is written.
    pub fn give_back(&mut self) -> Option<Vec<u8>> {
        (self.is_empty() && self.bytes.capacity() > 0).then(|| {
            self.clear();
            std::mem::take(&mut self.bytes)
        })
    }

    /// Bytes to be written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Number of bytes to be written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Bytes of memory in use; approximate if small, because its buffer may be lent.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        const COUNTED_BYTES_MIN: usize = 16 << 10;
        const LENT_BYTES_MAX: usize = 128 << 10;
        match (self.bytes.len(), self.bytes.capacity()) {
            (little @ ..COUNTED_BYTES_MIN, ..=LENT_BYTES_MAX) => little,
            (_, capacity) => capacity,
        }
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that `count` bytes of [`Self::bytes`] have been written.
    pub fn advance(&mut self, count: usize) {
        self.written = self.bytes.len().min(self.written + count);
        if self.is_empty() {
            self.clear();
        } else if self.written >= MOVED_BYTES_MIN && self.written * 2 >= self.bytes.len() {
            // Written bytes must not accumulate for a side that always has more to read. Moving
            // only the smaller half keeps the total cost of moves linear.
            self.bytes.drain(..self.written);
            self.written = 0;
            if self.bytes.capacity() > KEPT_BYTES && self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(self.bytes.capacity() / 2);
            }
        }
    }

    /// Puts `bytes` before everything else, of which nothing was written.
    pub(crate) fn put_first(&mut self, bytes: &[u8]) {
        self.bytes.splice(..0, bytes.iter().copied());
    }

    /// Removes what was added since [`Self::len`] was `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(self.written + length);
    }

    pub(crate) fn clear(&mut self) {
        self.written = 0;
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
    }

    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn what_was_written_is_not_kept_by_a_side_that_is_never_done() {
        let mut output = Output::default();
        for round in 0..10_000_u32 {
            output.buffer().extend_from_slice(&[round as u8; 1_000]);
            output.advance(if round == 0 { 500 } else { 1_000 });
            assert_eq!(output.bytes(), [round as u8; 500]);
        }
        assert!(output.bytes.capacity() < 16_384, "{}", output.bytes.capacity());
    }

    #[test]
    fn the_buffer_of_a_large_reply_is_kept_and_counted_until_it_is_given_back() {
        const BYTES: usize = 1_000_000;
        let (mut output, mut spare) = (Output::default(), Vec::new());
        for _ in 0..2 {
            output.borrow_from(&mut spare);
            output.buffer().resize(BYTES, 1);
            while output.len() > 100 {
                output.advance(output.len() / 3 + 1);
                assert!(output.held_bytes() >= BYTES, "{}", output.held_bytes());
            }
            output.advance(output.len());
            spare.extend(output.give_back());
            assert!(spare[0].capacity() >= BYTES && output.held_bytes() == 0);
        }
    }
}
