//! Latency of lookups, for the goal of `--autoscale`.
//!
//! Most are answered at once, and those are only counted: their time is far below anything that
//! memory could change. The time of the others, which waited for the disk, is measured.

use std::time::Duration;

use telemetry::{Latencies, SharedCounter, Spread, quantile};

/// Minimum number of lookups for a 99th percentile.
const LOOKUPS_MIN: u64 = 500;
/// What lookups that are answered at once are taken to need.
const AT_ONCE: Duration = Duration::from_micros(1);

/// Lookups since the start.
#[derive(Default)]
pub struct Lookups {
    at_once: SharedCounter,
    waited: Latencies<SharedCounter>,
}

/// Snapshot of the lookups at some time.
pub struct Counts {
    at_once: u64,
    waited: Spread,
}

impl Lookups {
    /// Counts lookups that were answered at once.
    pub fn note_at_once(&self, count: u64) {
        self.at_once.add(count);
    }

    /// Records a lookup that waited for the disk.
    pub fn note_waited(&self, time: Duration) {
        self.waited.record(time, 1);
    }

    /// Number of lookups so far.
    pub fn counts(&self) -> Counts {
        Counts { at_once: self.at_once.value(), waited: self.waited.spread() }
    }
}

impl Counts {
    /// The time 99 of 100 lookups since `before` took at most; none if there were too few.
    pub fn p99_since(&self, before: &Self) -> Option<Duration> {
        let (at_once, waited) = (self.at_once - before.at_once, self.waited.since(&before.waited));
        if at_once + waited.count() < LOOKUPS_MIN {
            return None;
        }
        let waited = waited.buckets().into_iter().map(|(upper, count)| (upper, count as f64));
        let at_once = (AT_ONCE.as_secs_f64(), at_once as f64);
        let all: Vec<(f64, f64)> = [at_once].into_iter().chain(waited).collect();
        quantile(&all, 0.99).map(Duration::from_secs_f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_a_hundred_is_found() {
        let lookups = Lookups::default();
        let start = lookups.counts();
        assert_eq!(lookups.counts().p99_since(&start), None);
        lookups.note_at_once(9_800);
        assert_eq!(lookups.counts().p99_since(&start), Some(Duration::from_micros(1)));
        (0..200).for_each(|_| lookups.note_waited(Duration::from_micros(900)));
        let p99 = lookups.counts().p99_since(&start).expect("enough lookups");
        assert!((900..1_000).contains(&p99.as_micros()), "{p99:?}");
        let middle = lookups.counts();
        lookups.note_at_once(1_000);
        lookups.note_waited(Duration::from_secs(100));
        assert_eq!(lookups.counts().p99_since(&middle), Some(Duration::from_micros(1)));
    }
}
