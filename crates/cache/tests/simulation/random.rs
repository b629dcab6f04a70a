//! Random numbers from one seed.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}
