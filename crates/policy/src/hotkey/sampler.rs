//! Which accesses are counted: a fixed share, chosen from a seed.

/// Draws from SplitMix64: one addition of state, so that every processor of a data plane can have
/// its own from its own seed.
#[derive(Debug, Clone)]
pub struct Sampler {
    state: u64,
    per_65536: u64,
}

impl Sampler {
    /// Samples `per_65536` of 65,536 accesses; 65,536 and more samples all.
    pub fn new(per_65536: u32, seed: u64) -> Self {
        Self { state: seed, per_65536: u64::from(per_65536) }
    }

    /// Whether the next access is sampled.
    pub fn sample(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn >> 48 < self.per_65536
    }
}
