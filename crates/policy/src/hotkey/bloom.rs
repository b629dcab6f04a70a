//! Bloom filter: which keys were inserted, never one too few.

use alloc::{vec, vec::Vec};

use super::hash::{FILTER_FACTORS, ROWS_MAX, place};
use crate::error::Error;

/// Rows of bits, one bit a key in every row (Bloom, "Space/time trade-offs in hash coding with
/// allowable errors", 1970; partitioned, as register arrays of a switch are).
#[derive(Debug, Clone)]
pub struct Bloom {
    /// Row after row; bit `i` of a row is bit `i % 64` of word `i / 64`.
    words: Vec<u64>,
    width_bits: u32,
}

impl Bloom {
    /// `rows` times `2^width_bits` bits, all clear.
    ///
    /// # Errors
    /// When `rows` is not 1 to [`ROWS_MAX`] or `width_bits` not 6 to 30.
    pub fn new(rows: usize, width_bits: u32) -> Result<Self, Error> {
        const WHAT: &str = "Bloom filter";
        if !(1..=ROWS_MAX).contains(&rows) {
            return Err(Error::Rows { what: WHAT, got: rows, limit: ROWS_MAX });
        }
        if !(6..=30).contains(&width_bits) {
            return Err(Error::Width { what: WHAT, got: width_bits, min: 6, max: 30 });
        }
        Ok(Self { words: vec![0; rows << (width_bits - 6)], width_bits })
    }

    /// Inserts a hash; true if it was certainly not there.
    pub fn insert(&mut self, hash: u64) -> bool {
        let width_bits = self.width_bits;
        let mut new = false;
        for (row, factor) in self.words.chunks_mut(1 << (width_bits - 6)).zip(FILTER_FACTORS) {
            let bit = place(hash, factor, width_bits);
            new |= (row[bit / 64] >> (bit % 64)) & 1 == 0;
            row[bit / 64] |= 1 << (bit % 64);
        }
        new
    }

    /// Whether a hash was inserted, or seems to have been.
    pub fn contains(&self, hash: u64) -> bool {
        let mut rows = self.words.chunks(1 << (self.width_bits - 6)).zip(FILTER_FACTORS);
        rows.all(|(row, factor)| {
            let bit = place(hash, factor, self.width_bits);
            (row[bit / 64] >> (bit % 64)) & 1 == 1
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// All bits, row after row, 64 to a word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}
