//! Hot keys: which keys not cached are asked for often, and which cached ones seldom.
//!
//! As in NetCache (Jin and others, "NetCache: balancing key-value stores with fast in-network
//! caching", SOSP 2017, section 4.4.3): a key *not* cached is counted in a [`CountMin`] sketch;
//! once its estimate reaches a threshold it is reported, unless a [`Bloom`] filter says it was
//! already, so each hot key is reported once a period. A key that *is* cached has its own place in
//! [`Counters`]. Both see only a [`Sampler`]'s share of accesses. At the end of a period, a second
//! there, everything is cleared.
//!
//! Sketch and filter err on one side each. The sketch never counts too little, so a hot key reaches
//! the threshold for certain, and now and then a cool one does. The filter may take a key for
//! reported that was not, and it stays silent until the next period (after 1,000
//! reports in a period, one key in eighteen million).
//!
//! The memory layout and every hash are fixed in `docs/formats/hotkey.md`, since the data plane
//! fills the same structures from eBPF.

mod bloom;
mod count_min;
mod counters;
mod hash;
mod sampler;
#[cfg(test)]
mod tests;

pub use bloom::Bloom;
pub use count_min::CountMin;
pub use counters::Counters;
pub use hash::{ROWS_MAX, hash};
pub use sampler::Sampler;

use crate::error::Error;

/// Sizes and thresholds of a [`Detector`]. The default sizes are NetCache's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Rows of the count-min sketch, 1 to [`ROWS_MAX`].
    pub sketch_rows: usize,
    /// Counters in a row, as a power of two.
    pub sketch_width_bits: u32,
    /// Rows of the Bloom filter, 1 to [`ROWS_MAX`].
    pub filter_rows: usize,
    /// Bits in a row, as a power of two.
    pub filter_width_bits: u32,
    /// Sampled accesses in a period from which a key is hot.
    pub threshold: u16,
    /// Accesses sampled, in 65,536ths: 65,536 samples all.
    pub sampled_per_65536: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sketch_rows: 4,
            sketch_width_bits: 16,
            filter_rows: 3,
            filter_width_bits: 18,
            threshold: 128,
            sampled_per_65536: 65_536,
        }
    }
}

/// Counters of a [`Detector`], since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Accesses observed.
    pub observed: u64,
    /// Accesses that were sampled and counted.
    pub sampled: u64,
    /// Keys reported as hot.
    pub reported: u64,
    /// Periods ended.
    pub periods: u64,
}

/// Reports each hot key once a period.
#[derive(Debug, Clone)]
pub struct Detector {
    sketch: CountMin,
    filter: Bloom,
    sampler: Sampler,
    threshold: u16,
    seed: u64,
    stats: Stats,
}

impl Detector {
    /// Nothing seen yet. `seed` keys the hashes and the sampling, so that what collides here does
    /// not collide elsewhere. It does not protect against keys that collide under every seed; such
    /// keys only cause a cold key to be reported as hot.
    ///
    /// # Errors
    /// When there are no hash functions for these sizes.
    pub fn new(config: Config, seed: u64) -> Result<Self, Error> {
        Ok(Self {
            sketch: CountMin::new(config.sketch_rows, config.sketch_width_bits)?,
            filter: Bloom::new(config.filter_rows, config.filter_width_bits)?,
            sampler: Sampler::new(config.sampled_per_65536, seed),
            threshold: config.threshold,
            seed,
            stats: Stats::default(),
        })
    }

    /// Counts one access to a key that is not cached; true if the key is to be reported as hot.
    pub fn observe(&mut self, key: &[u8]) -> bool {
        self.observe_hash(hash(key, self.seed))
    }

    /// The same for a caller that has the key's [`hash`] under this detector's seed.
    pub fn observe_hash(&mut self, hash: u64) -> bool {
        self.stats.observed += 1;
        if !self.sampler.sample() {
            return false;
        }
        self.stats.sampled += 1;
        let hot = self.sketch.add(hash) >= self.threshold && self.filter.insert(hash);
        self.stats.reported += u64::from(hot);
        hot
    }

    /// Ends a period: forgets all counts and reports.
    pub fn clear(&mut self) {
        self.sketch.clear();
        self.filter.clear();
        self.stats.periods += 1;
    }

    /// The sketch, to read.
    pub fn sketch(&self) -> &CountMin {
        &self.sketch
    }

    /// The filter, to read.
    pub fn filter(&self) -> &Bloom {
        &self.filter
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}
