//! Which accesses are counted: a fixed share, chosen from a seed.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

/// Draws from SplitMix64: one addition of state, so that every processor of a data plane can have
/// its own from its own seed.
#[derive(Debug, Clone)]
pub struct Sampler {
    random: SplitMix64,
    per_65536: u64,
}

impl Sampler {
    /// Samples `per_65536` of 65,536 accesses; 65,536 and more samples all.
    pub fn new(per_65536: u32, seed: u64) -> Self {
        Self { random: SplitMix64::seed_from_u64(seed), per_65536: u64::from(per_65536) }
    }

    /// Whether the next access is sampled.
    pub fn sample(&mut self) -> bool {
        self.random.next_u64() >> 48 < self.per_65536
    }
}
