//! Statistics of recent lookups: use counts of entries, and the effect of more memory.

use std::time::Duration;

use super::advice::Advice;
use super::reuse::Reuse;
use super::table::Table;
use crate::memory::Memory;
use crate::replacement::Sketch;

/// Approximate memory of an entry besides its value, in bytes: header, short key, index, body.
const ENTRY_BYTES: usize = 64;

/// Owns the sketch of recent lookups, by which warming selects entries, and the sampled miss-ratio
/// curve.
///
/// Invariant: only lookups that find an entry are counted.
pub(super) struct Usage {
    /// Sketch of how often entries were looked up recently.
    uses: Sketch,
    counted: u64,
    reuse: Reuse,
}

impl Usage {
    pub(super) fn new() -> Self {
        Self { uses: Sketch::default(), counted: 0, reuse: Reuse::default() }
    }

    /// Counts a lookup that found an entry of `value_bytes`. The sketch is sized by the number of
    /// entries in both tables.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, value_bytes: usize, table: &Table, memory: &Memory) {
        self.reuse.note(hash, value_bytes + ENTRY_BYTES);
        self.counted += 1;
        // One in four at random, not every fourth: lookups may be periodic.
        if self.counted.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0 {
            // The sketch must distinguish all entries, not only those in memory.
            let entries = usize::try_from(table.len()).unwrap_or(usize::MAX);
            self.uses.add(hash as u32, entries.min(8 * memory.items()));
        }
    }

    /// Returns approximately how often entries of this hash were looked up recently.
    pub(super) fn estimate(&self, hash: u64) -> u8 {
        self.uses.estimate(hash as u32)
    }

    /// Reduces the weight of old lookups.
    pub(super) fn age(&mut self, now: Duration) {
        self.reuse.age(now);
    }

    /// The miss-ratio curve; `fixed_bytes` are needed at every memory size.
    pub(super) fn advice(&self, fixed_bytes: usize) -> Advice {
        self.reuse.advice(fixed_bytes)
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.uses.bytes() + self.reuse.bytes()
    }
}
