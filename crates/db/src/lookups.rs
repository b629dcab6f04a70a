//! Latency of lookups.
//!
//! Most are answered at once, and those are only counted: their time is far below anything that
//! memory could change. The time of the others, which waited for the disk, is measured.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Steps for every doubling of the time.
const STEPS_PER_DOUBLING: u32 = 8;
/// From a microsecond to 67 seconds.
const STEPS: usize = 26 * STEPS_PER_DOUBLING as usize;
/// Minimum number of lookups for a 99th percentile.
const LOOKUPS_MIN: u64 = 500;

/// Lookups since the start.
pub struct Lookups {
    at_once: AtomicU64,
    waited: [AtomicU64; STEPS],
}

/// Snapshot of the lookups at some time.
pub struct Counts {
    at_once: u64,
    waited: [u64; STEPS],
}

impl Default for Lookups {
    fn default() -> Self {
        Self { at_once: AtomicU64::new(0), waited: [const { AtomicU64::new(0) }; STEPS] }
    }
}

impl Lookups {
    /// Counts lookups that were answered at once.
    pub fn note_at_once(&self, count: u64) {
        self.at_once.fetch_add(count, Relaxed);
    }

    /// Records a lookup that waited for the disk.
    pub fn note_waited(&self, time: Duration) {
        self.waited[step(time)].fetch_add(1, Relaxed);
    }

    /// Number of lookups so far.
    pub fn counts(&self) -> Counts {
        let at_once = self.at_once.load(Relaxed);
        Counts { at_once, waited: std::array::from_fn(|step| self.waited[step].load(Relaxed)) }
    }
}

impl Counts {
    /// The time 99 of 100 lookups since `before` took at most; none if there were too few.
    pub fn p99_since(&self, before: &Self) -> Option<Duration> {
        let waited = |step: usize| self.waited[step] - before.waited[step];
        let total = self.at_once - before.at_once + (0..STEPS).map(waited).sum::<u64>();
        if total < LOOKUPS_MIN {
            return None;
        }
        let mut slower = 0;
        for step in (0..STEPS).rev() {
            slower += waited(step);
            if slower > total / 100 {
                return Some(longest(step));
            }
        }
        Some(Duration::from_micros(1))
    }
}

fn step(time: Duration) -> usize {
    let micros = (time.as_nanos() as f64 / 1e3).max(1.0);
    ((micros.log2() * f64::from(STEPS_PER_DOUBLING)) as usize).min(STEPS - 1)
}

/// The longest time of a step.
fn longest(step: usize) -> Duration {
    let micros = ((step + 1) as f64 / f64::from(STEPS_PER_DOUBLING)).exp2();
    Duration::from_nanos((micros * 1e3) as u64)
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
