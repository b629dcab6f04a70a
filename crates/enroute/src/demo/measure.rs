//! What one row of the demonstration came to.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{KEYS, ROUND_TRIP};

/// What a running row shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    reads: AtomicU64,
    last_ns: AtomicU64,
    sum_ns: AtomicU64,
}

impl Progress {
    pub(crate) fn record(&self, latency: Duration) {
        let latency_ns = latency.as_nanos() as u64;
        self.last_ns.store(latency_ns, Relaxed);
        self.sum_ns.fetch_add(latency_ns, Relaxed);
        self.reads.fetch_add(1, Relaxed);
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    /// Mean of everything so far, in milliseconds.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.sum_ns.load(Relaxed) as f64 / 1e6 / self.reads().max(1) as f64
    }
}

/// A finished row.
pub(crate) struct Measured {
    /// Sorted.
    latencies: Vec<Duration>,
    elapsed: Duration,
    hits: u64,
    /// Keys that were read at least once.
    distinct: usize,
}

impl Measured {
    pub(crate) fn new(
        mut latencies: Vec<Duration>,
        elapsed: Duration,
        hits: u64,
        distinct: usize,
    ) -> Self {
        latencies.sort_unstable();
        Self { latencies, elapsed, hits, distinct }
    }

    pub(crate) fn reads(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn mean_ms(&self) -> f64 {
        let sum: Duration = self.latencies.iter().sum();
        milliseconds(sum) / self.reads().max(1) as f64
    }

    /// The latency that a share of all reads stay under, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let rank = (share * self.reads() as f64).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied().map_or(0.0, milliseconds)
    }

    pub(crate) fn reads_per_s(&self) -> f64 {
        self.reads() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    pub(crate) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.reads().max(1) as f64
    }

    /// The mean nobody can beat with this capacity: the first read of each key and a share
    /// `1 − capacity/keys` of the others take one round trip, the rest what a hit takes here.
    pub(crate) fn ideal_mean_ms(&self, capacity: usize) -> f64 {
        let reads = self.reads() as f64;
        let first = if capacity == 0 { reads } else { self.distinct as f64 };
        let share = capacity.min(KEYS as usize) as f64 / f64::from(KEYS);
        let misses = first + (reads - first) * (1.0 - share);
        let hits = reads - misses;
        (misses * milliseconds(ROUND_TRIP) + hits * self.hit_p50_ms()) / reads.max(1.0)
    }

    /// The median of the hits, which are the fastest reads.
    fn hit_p50_ms(&self) -> f64 {
        let middle = (self.hits / 2) as usize;
        self.latencies.get(middle).copied().filter(|_| self.hits > 0).map_or(0.0, milliseconds)
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Measured;

    #[test]
    fn ideal_counts_first_reads_and_what_does_not_fit() {
        // 100 first reads and 100 others of 100 keys, half of which fit; hits take 1 ms.
        let mut latencies = vec![Duration::from_millis(164); 150];
        latencies.extend([Duration::from_millis(1); 50]);
        let row = Measured::new(latencies, Duration::from_secs(1), 50, 100);
        assert!((row.ideal_mean_ms(50) - (150.0 * 164.0 + 50.0) / 200.0).abs() < 1e-9);
        assert!((row.ideal_mean_ms(0) - 164.0).abs() < 1e-9);
        assert!((row.mean_ms() - row.ideal_mean_ms(50)).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_of_the_sorted_reads() {
        let latencies = (1..=100).rev().map(Duration::from_millis).collect();
        let row = Measured::new(latencies, Duration::from_secs(2), 0, 100);
        assert_eq!((row.quantile_ms(0.5), row.quantile_ms(0.99)), (50.0, 99.0));
        assert!((row.reads_per_s() - 50.0).abs() < 1e-9);
    }
}
