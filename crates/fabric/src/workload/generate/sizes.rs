//! Sizes of flows, as the cumulative distributions they were published as.

use rand::RngExt;
use rand_pcg::Pcg64;

/// A distribution: pairs of a size in bytes and the percentage of flows up to that size; linear in
/// between.
pub(super) struct Sizes(&'static [(f64, f64)]);

/// Facebook's Hadoop cluster [46], in the steps HPCC [34] draws it with.
pub(super) const HADOOP: Sizes = Sizes(&[
    (1.0, 0.0),
    (100.0, 1.0),
    (200.0, 2.0),
    (300.0, 5.0),
    (350.0, 15.0),
    (500.0, 30.0),
    (600.0, 40.0),
    (700.0, 50.0),
    (1_000.0, 60.0),
    (2_000.0, 67.0),
    (10_000.0, 71.0),
    (30_000.0, 72.0),
    (50_000.0, 82.0),
    (80_000.0, 87.0),
    (120_000.0, 90.0),
    (300_000.0, 95.0),
    (1_000_000.0, 97.5),
    (2_000_000.0, 99.0),
    (10_000_000.0, 100.0),
]);

/// A web search cluster [4].
pub(super) const WEB_SEARCH: Sizes = Sizes(&[
    (1.0, 0.0),
    (10_000.0, 15.0),
    (20_000.0, 20.0),
    (30_000.0, 30.0),
    (50_000.0, 40.0),
    (80_000.0, 53.0),
    (200_000.0, 60.0),
    (1_000_000.0, 70.0),
    (2_000_000.0, 80.0),
    (5_000_000.0, 90.0),
    (10_000_000.0, 97.0),
    (30_000_000.0, 100.0),
]);

impl Sizes {
    /// The mean in bytes.
    pub(super) fn mean(&self) -> f64 {
        let step = |pair: &[(f64, f64)]| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1);
        self.0.windows(2).map(step).sum::<f64>() / 100.0
    }

    /// One size in bytes, at least 1.
    pub(super) fn draw(&self, random: &mut Pcg64) -> u64 {
        let percent = random.random::<f64>() * 100.0;
        let above = self.0.partition_point(|&(_, share)| share <= percent).min(self.0.len() - 1);
        let ((low, from), (high, to)) = (self.0[above - 1], self.0[above]);
        (low + (high - low) * (percent - from) / (to - from)) as u64
    }
}
