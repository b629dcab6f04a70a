//! Bytes to be written to a device, in memory that begins at a block boundary.
//!
//! Otherwise a kernel thread of the disk copies them first, through caches that the workers need.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

/// Alignment of offsets, lengths and memory for I/O past the page cache.
pub(crate) const BLOCK_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// Bytes that begin at a block boundary in memory.
#[derive(Debug, Default)]
pub struct Blocks {
    /// As many blocks as were ever needed; the content of unused blocks is undefined.
    blocks: Vec<Block>,
    bytes: usize,
}

impl Blocks {
    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.capacity() * BLOCK_BYTES
    }

    /// Makes room for `more` bytes.
    pub(crate) fn reserve(&mut self, more: usize) {
        let blocks = (self.bytes + more).div_ceil(BLOCK_BYTES);
        if blocks > self.blocks.len() {
            self.blocks.resize(blocks, Block::zeroed());
        }
    }

    /// Drops the bytes and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Drops all bytes after the first `bytes`.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Appends `more` bytes of undefined content, to be overwritten.
    pub(crate) fn extend(&mut self, more: usize) -> &mut [u8] {
        self.reserve(more);
        let start = self.bytes;
        self.bytes += more;
        &mut self[start..]
    }

    /// Appends these bytes.
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends zeroes until there are `bytes`.
    pub(crate) fn fill_up(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.extend(more).fill(0);
    }

    /// The allocated memory after the bytes; may be empty.
    pub(crate) fn ahead(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[self.bytes..]
    }
}

impl Deref for Blocks {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.bytes]
    }
}

impl DerefMut for Blocks {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.bytes]
    }
}

impl From<&[u8]> for Blocks {
    fn from(bytes: &[u8]) -> Self {
        let mut blocks = Self::default();
        blocks.extend_from_slice(bytes);
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_at_a_whole_block_however_they_grow() {
        let mut blocks = Blocks::default();
        let mut model = Vec::new();
        for round in 0..200u8 {
            let piece = vec![round; usize::from(round) * 13];
            blocks.extend_from_slice(&piece);
            model.extend_from_slice(&piece);
            if round % 7 == 0 {
                model.resize(model.len().next_multiple_of(64), 0);
                blocks.fill_up(model.len());
            }
            assert_eq!(*blocks, *model);
            assert_eq!(blocks.as_ptr().align_offset(BLOCK_BYTES), 0);
            if round == 100 {
                blocks.clear();
                model.clear();
            }
        }
    }
}
