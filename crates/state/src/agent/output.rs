//! Output buffer of a connection.

/// Bytes to be written, and bytes that were written but may be needed again.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    /// Capacity that an empty buffer keeps.
    room: usize,
    /// End of the dropped bytes.
    start: usize,
    /// End of the written bytes.
    written: usize,
}

impl Output {
    /// Creates an empty buffer that keeps up to `room` bytes of capacity.
    pub(super) fn new(room: usize) -> Self {
        Self { bytes: Vec::new(), room, start: 0, written: 0 }
    }

    /// Returns the bytes that are still to be written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Notes that `count` more bytes were written.
    pub fn advance(&mut self, count: usize) {
        self.written = (self.written + count).min(self.bytes.len());
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Drops the first `count` kept bytes, which are written and no longer needed.
    pub(super) fn forget(&mut self, count: usize) {
        self.start = (self.start + count).min(self.written);
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(self.room);
            (self.start, self.written) = (0, 0);
        } else if self.start > self.room && self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.bytes.shrink_to(self.room);
            self.written -= self.start;
            self.start = 0;
        }
    }

    /// Drops written bytes.
    pub(super) fn forget_written(&mut self) {
        self.forget(self.written - self.start);
    }

    /// All kept bytes, written or not.
    pub(super) fn kept(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Bytes of memory in use.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the number of the kept bytes that are written.
    pub(super) fn written(&self) -> usize {
        self.written - self.start
    }
}
