//! Which keys are hot, for [`Population::Hot`].

use std::time::Duration;

use policy::hotkey::{self, CountMin};

use super::{Config, Population};

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
