//! One parity block, from which any single damaged block of a segment can be restored.
//!
//! A segment without footer lines has this block in their place: the exclusive or of all blocks
//! before it. Without lines or parity, a restart could not tell the key of a damaged record or the
//! record that it kills, and would serve the entry's former value.

use super::record::{Address, Record};
use super::segment::BLOCK_BYTES;

/// The exclusive or of blocks. Over all blocks of a segment, parity block included, it is zero
/// where nothing is damaged, and elsewhere it is the correction.
#[derive(Debug)]
pub(super) struct Parity(Vec<u8>);

impl Parity {
    pub(super) fn new() -> Self {
        Self(vec![0; BLOCK_BYTES])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes in whole blocks.
    pub(super) fn add(&mut self, blocks: &[u8]) {
        for block in blocks.chunks_exact(BLOCK_BYTES) {
            xor(&mut self.0, block);
        }
    }

    /// Mends the record at `address` in `segment`, of which everything was taken in, if all that is
    /// wrong with it lies in one block and nothing else is wrong at the same places of other
    /// blocks; false otherwise. The damage ends at `end` at the latest.
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
            // Of the block only this record is known to be whole now.
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
