//! When answers are stored, and which keys are hot.

use std::time::Duration;

use policy::hotkey::{self, CountMin};

use super::Config;

/// When answers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Population {
    /// The reply of every read that missed is stored.
    #[default]
    OnMiss,
    /// As on miss; in addition, a write that contains the whole value stores it when it is
    /// answered.
    OnWrite,
    /// Only keys that were read at least `threshold` times in the current period are stored.
    Hot {
        /// Reads within one period that make a key hot.
        threshold: u16,
    },
}

/// Counts the reads that miss, for [`Population::Hot`]: NetCache's sketch, in user space.
#[derive(Debug)]
pub(super) struct HotKeys {
    sketch: CountMin,
    threshold: u16,
    period: Duration,
    ends_at: Duration,
}

impl HotKeys {
    pub(super) fn new(config: &Config) -> Option<Self> {
        let Population::Hot { threshold } = config.population else { return None };
        let sizes = hotkey::Config::default();
        let sketch = CountMin::new(sizes.sketch_rows, sizes.sketch_width_bits)
            .expect("the default sizes are within the limits");
        let period = config.hot_period;
        Some(Self { sketch, threshold, period, ends_at: period })
    }

    /// Counts a read; says whether its key is hot.
    pub(super) fn count(&mut self, hash: u64) -> bool {
        self.sketch.add(hash) >= self.threshold
    }

    /// Whether one more read would make the key hot.
    pub(super) fn would_be(&self, hash: u64) -> bool {
        self.sketch.estimate(hash).saturating_add(1) >= self.threshold
    }

    pub(super) fn advance(&mut self, now: Duration) {
        if now >= self.ends_at {
            self.sketch.clear();
            self.ends_at = now + self.period;
        }
    }
}
