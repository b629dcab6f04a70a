//! Which hits are asked at the origin too, and which differences are logged.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Which hits are asked at the origin too, in all sessions that share it.
#[derive(Debug)]
pub struct Verify {
    /// Below this, of 2^64, a hit is sampled.
    below: u64,
    /// Hits counted; the number of a hit decides whether it is sampled.
    hits: AtomicU64,
    /// When a difference was logged last, in nanoseconds, and 1; 0 before the first.
    told_at: AtomicU64,
}

/// Shortest time between two log lines on differences: further ones are only counted.
const TOLD_INTERVAL: Duration = Duration::from_secs(1);

impl Verify {
    /// Samples a share of the hits, from 0 to 1; `None` if it is 0.
    #[must_use]
    pub fn share(share: f64) -> Option<Self> {
        let below = (share * u64::MAX as f64) as u64;
        (below > 0).then(|| Self { below, hits: AtomicU64::new(0), told_at: AtomicU64::new(0) })
    }

    /// Whether the next hit is sampled.
    pub(crate) fn picks(&self) -> bool {
        let number = self.hits.fetch_add(1, Relaxed);
        xxh3_64_with_seed(&number.to_le_bytes(), 0) <= self.below
    }

    /// Whether a difference found now may be logged.
    pub(crate) fn may_tell(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let due = |told_at: u64| {
            (told_at == 0 || now.saturating_sub(told_at) >= TOLD_INTERVAL.as_nanos() as u64)
                .then_some(now)
        };
        self.told_at.fetch_update(Relaxed, Relaxed, due).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Verify};

    #[test]
    fn the_share_is_kept() {
        assert!(Verify::share(0.0).is_none());
        for (share, expected) in [(1.0, 100_000..=100_000), (0.01, 900..=1_100)] {
            let verify = Verify::share(share).expect("more than 0");
            let picked = (0..100_000).filter(|_| verify.picks()).count();
            assert!(expected.contains(&picked), "{share}: {picked}");
        }
    }

    #[test]
    fn a_difference_is_told_once_a_second() {
        let verify = Verify::share(1.0).expect("more than 0");
        let told =
            [0, 1, 999, 1_000, 1_999, 2_001].map(|at| verify.may_tell(Duration::from_millis(at)));
        assert_eq!(told, [true, false, false, true, false, true]);
    }
}
