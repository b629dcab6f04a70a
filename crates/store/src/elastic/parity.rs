//! One parity block, from which any single damaged block of a segment can be restored.
//!
//! A segment without footer lines has this block in their place: the exclusive or of all blocks
//! before it. Without lines or parity, a restart could not tell the key of a damaged record or the
//! record that it kills, and would serve the entry's former value.

use super::record::{Address, Record};
use super::segment::BLOCK_BYTES;

/// The exclusive or of blocks. Over all blocks of a segment, including the parity block, it is zero
/// where nothing is damaged; elsewhere it is the correction.
#[derive(Debug)]
pub(super) struct Parity(Vec<u8>);

impl Parity {
    pub(super) fn new() -> Self {
        Self(vec![0; BLOCK_BYTES])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds whole blocks.
    pub(super) fn add(&mut self, blocks: &[u8]) {
        for block in blocks.chunks_exact(BLOCK_BYTES) {
            xor(&mut self.0, block);
        }
    }

    /// Repairs the record at `address` in `segment`, all of which was added, if its damage is in
    /// one block and the same places of all other blocks are intact; returns false otherwise. The
    /// damage ends at `end` at the latest.
    pub(super) fn mend(&mut self, address: Address, segment: &mut [u8], end: usize) -> bool {
        let at = address.offset() as usize;
        (at / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).any(|block| {
            let begin = block * BLOCK_BYTES;
            let damaged = segment[begin..begin + BLOCK_BYTES].to_vec();
            xor(&mut segment[begin..begin + BLOCK_BYTES], &self.0);
            let record = Record::read(address, &segment[at..end]).map(|read| read.bytes());
            let whole = segment[begin..begin + BLOCK_BYTES].to_vec();
            segment[begin..begin + BLOCK_BYTES].copy_from_slice(&damaged);
            let Ok(bytes) = record else { return false };
            // Only this record of the block is known to be intact now.
            for place in at.max(begin)..(at + bytes).min(begin + BLOCK_BYTES) {
                segment[place] = whole[place - begin];
                self.0[place - begin] = 0;
            }
            true
        })
    }
}

fn xor(sum: &mut [u8], block: &[u8]) {
    sum.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte);
}
