//! Load parameters of a data plane, as they are kept for processes that use it later.

use std::path::PathBuf;

use policy::hotkey;
use serde::{Deserialize, Serialize};

use crate::plane::{Config, Values};

/// Raised whenever `bpf/layout.h` changes: maps of another layout are not reused.
pub const LAYOUT: u32 = 8;

/// Load parameters of a data plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// [`LAYOUT`] of the build that loaded it; 0 for older builds.
    #[serde(default)]
    pub layout: u32,
    /// UDP port of NetCache's protocol.
    pub netcache_port: u16,
    /// Port of memcached.
    pub memcache_port: u16,
    /// Places for keys.
    pub entries: u32,
    /// Rows of register arrays; 0 for fixed slots.
    pub rows: u32,
    /// Sampled accesses from which a key is hot.
    pub threshold: u16,
    /// Accesses sampled, in 65,536ths.
    pub sampled_per_65536: u32,
    /// Counters in a row of the count-min sketch, as a power of two.
    pub sketch_bits: u32,
    /// Bits in a row of the Bloom filter, as a power of two.
    pub filter_bits: u32,
    /// Secret of the hash functions.
    pub seed: u64,
}

impl Saved {
    /// Whether this build can use its maps.
    #[must_use]
    pub fn is_of_this_build(&self) -> bool {
        self.layout == LAYOUT
    }

    /// The same for the loader.
    pub fn config(&self, pins: PathBuf) -> Config {
        Config {
            netcache_port: self.netcache_port,
            memcache_port: self.memcache_port,
            entries: self.entries,
            values: if self.rows == 0 {
                Values::Slots
            } else {
                Values::Registers { rows: self.rows }
            },
            statistics: hotkey::Config {
                threshold: self.threshold,
                sampled_per_65536: self.sampled_per_65536,
                sketch_width_bits: self.sketch_bits,
                filter_width_bits: self.filter_bits,
                ..hotkey::Config::default()
            },
            seed: self.seed,
            pins: Some(pins),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_older_builds_are_of_another_layout() {
        let text = r#"{"netcache_port":1,"memcache_port":2,"entries":64,"rows":0,"threshold":3,
            "sampled_per_65536":4,"sketch_bits":5,"filter_bits":6,"seed":7}"#;
        let saved: Saved = serde_json::from_str(text).expect("parameters");
        assert!(!saved.is_of_this_build());
        let config = saved.config("/x".into());
        assert_eq!((config.values, config.statistics.threshold), (Values::Slots, 3));
        let now = Saved { layout: LAYOUT, rows: 9, ..saved };
        assert!(now.is_of_this_build());
        assert_eq!(now.config("/x".into()).values, Values::Registers { rows: 9 });
    }
}
