//! Bytes on their way to one side.

/// Bytes on their way to one side, written as far as the socket takes them.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
}

/// A buffer that has been written out is kept up to this size; an idle connection holds no more.
const KEPT_BYTES: usize = 1_024;

impl Output {
    /// What is to be written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// How many bytes are to be written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Is everything written?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `count` of [`Self::bytes`] have been written.
    pub fn advance(&mut self, count: usize) {
        self.written = self.bytes.len().min(self.written + count);
        if self.is_empty() {
            self.clear();
        }
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
