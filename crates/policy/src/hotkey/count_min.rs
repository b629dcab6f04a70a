//! Count-min sketch: how often each key was seen, never underestimated.

use alloc::{vec, vec::Vec};

use super::hash::{ROWS_MAX, SKETCH_FACTORS, place};
use crate::error::Error;

/// Rows of saturating 16-bit counters, one counter a key in every row; the smallest tells
/// (Cormode and Muthukrishnan, "An improved data stream summary", 2005).
#[derive(Debug, Clone)]
pub struct CountMin {
    /// Row after row.
    counters: Vec<u16>,
    width_bits: u32,
}

impl CountMin {
    /// `rows` times `2^width_bits` counters, all zero.
    ///
    /// # Errors
    /// When `rows` is not 1 to [`ROWS_MAX`] or `width_bits` not 1 to 26.
    pub fn new(rows: usize, width_bits: u32) -> Result<Self, Error> {
        const WHAT: &str = "count-min sketch";
        if !(1..=ROWS_MAX).contains(&rows) {
            return Err(Error::Rows { what: WHAT, got: rows, limit: ROWS_MAX });
        }
        if !(1..=26).contains(&width_bits) {
            return Err(Error::Width { what: WHAT, got: width_bits, min: 1, max: 26 });
        }
        Ok(Self { counters: vec![0; rows << width_bits], width_bits })
    }

    /// Counts one more and returns the new estimate.
    pub fn add(&mut self, hash: u64) -> u16 {
        let width_bits = self.width_bits;
        let mut least = u16::MAX;
        for (row, factor) in self.counters.chunks_mut(1 << width_bits).zip(SKETCH_FACTORS) {
            let counter = &mut row[place(hash, factor, width_bits)];
            *counter = counter.saturating_add(1);
            least = least.min(*counter);
        }
        least
    }

    /// Returns an upper bound on the number of times `hash` was added; at most 65,535.
    pub fn estimate(&self, hash: u64) -> u16 {
        let rows = self.counters.chunks(1 << self.width_bits).zip(SKETCH_FACTORS);
        rows.map(|(row, factor)| row[place(hash, factor, self.width_bits)]).min().unwrap_or(0)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counters.fill(0);
    }

    /// All counters, row after row.
    pub fn counters(&self) -> &[u16] {
        &self.counters
    }
}
