//! Latencies, counted in buckets whose width grows with the latency.

use std::{array, time::Duration};

use crate::{Count, Counter};

/// Buckets for each doubling of the latency: a quantile is at most an eighth too high.
const PER_DOUBLING: usize = 8;
/// Width of the narrowest buckets, as a power of two in nanoseconds.
const UNIT_BITS: u32 = 7;
/// The last bucket begins at a minute; longer latencies are counted there.
const BUCKETS: usize = 27 * PER_DOUBLING;

/// Latencies with any number of readers, and one writer; or several, if its counters are
/// [`SharedCounter`](crate::SharedCounter)s. Its memory is fixed.
#[derive(Debug)]
pub struct Latencies<C = Counter> {
    buckets: [C; BUCKETS],
    sum_ns: C,
}

impl<C: Count> Default for Latencies<C> {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| C::default()), sum_ns: C::default() }
    }
}

impl<C: Count> Latencies<C> {
    /// Counts `count` requests of one batch, which have the same latency. With a [`Counter`], only
    /// the owner may call it.
    #[inline]
    pub fn record(&self, latency: Duration, count: u64) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket(ns)) {
            bucket.add(count);
        }
        self.sum_ns.add(ns.saturating_mul(count));
    }

    /// What was counted.
    #[must_use]
    pub fn spread(&self) -> Spread {
        let mut spread = Spread::default();
        self.add_to(&mut spread);
        spread
    }

    /// Adds what was counted to `sum`.
    pub fn add_to(&self, sum: &mut Spread) {
        sum.counts.resize(BUCKETS, 0);
        for (sum, bucket) in sum.counts.iter_mut().zip(&self.buckets) {
            *sum += bucket.value();
        }
        sum.seconds += self.sum_ns.value() as f64 / 1e9;
    }
}

/// Latencies counted so far, by all writers.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    counts: Vec<u64>,
    /// Sum of the latencies.
    pub seconds: f64,
}

impl Spread {
    /// What was counted after `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let before_of = |bucket| before.counts.get(bucket).copied().unwrap_or_default();
        let counts = self.counts.iter().enumerate();
        Self {
            counts: counts.map(|(bucket, count)| count - before_of(bucket)).collect(),
            seconds: self.seconds - before.seconds,
        }
    }

    /// Number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper bound in seconds and number of requests of each bucket, ascending, empty ones left
    /// out.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(bucket, count)| (upper_ns(bucket) as f64 / 1e9, *count)).collect()
    }

    /// The median and the 99th percentile, in seconds; `None` without requests.
    #[must_use]
    pub fn percentiles(&self) -> [Option<f64>; 2] {
        let buckets = self.buckets();
        let weights: Vec<_> = buckets.iter().map(|&(upper, count)| (upper, count as f64)).collect();
        [0.5, 0.99].map(|share| quantile(&weights, share))
    }

    /// [`Self::buckets`] that are the same whatever was counted, two for each doubling.
    #[must_use]
    pub fn coarse_buckets(&self) -> Vec<(f64, u64)> {
        let coarse = self.counts.chunks(PER_DOUBLING / 2).enumerate();
        coarse
            .map(|(index, counts)| {
                let upper = upper_ns((index + 1) * (PER_DOUBLING / 2) - 1);
                (upper as f64 / 1e9, counts.iter().sum())
            })
            .collect()
    }
}

/// The latency, in seconds, that a `share` of the requests in `buckets` does not exceed; `None`
/// without requests. The buckets ascend: upper bound and number of requests.
#[must_use]
pub fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let total: f64 = buckets.iter().map(|(_, count)| count).sum();
    let mut below = 0.0;
    let reached = |(_, count): &&(f64, f64)| {
        below += count;
        below >= total * share
    };
    buckets.iter().filter(|(_, count)| *count > 0.0).find(reached).map(|(upper, _)| *upper)
}

fn bucket(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    // The widths are those of the first buckets until the first doubling.
    let doublings = (units | PER_DOUBLING as u64).ilog2() - PER_DOUBLING.ilog2();
    let bucket = PER_DOUBLING * doublings as usize + (units >> doublings) as usize;
    bucket.min(BUCKETS - 1)
}

fn upper_ns(bucket: usize) -> u64 {
    let doublings = (bucket / PER_DOUBLING).saturating_sub(1);
    let within = bucket - PER_DOUBLING * doublings;
    (within as u64 + 1) << (UNIT_BITS as usize + doublings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BUCKETS, Counter, Latencies, PER_DOUBLING, Spread, bucket, quantile, upper_ns};

    #[test]
    fn buckets_meet_and_none_is_wider_than_an_eighth_of_its_latency() {
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        for index in 0..BUCKETS - 1 {
            let upper = upper_ns(index);
            assert_eq!((bucket(upper - 1), bucket(upper)), (index, index + 1));
            let width = upper_ns(index + 1) - upper;
            assert!(index < PER_DOUBLING || width * 8 <= upper, "{index}: {width} at {upper}");
        }
        assert!(upper_ns(BUCKETS - 2) > 60_000_000_000, "{}", upper_ns(BUCKETS - 2));
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let latencies = Latencies::<Counter>::default();
        assert_eq!(quantile(&[], 0.5), None);
        latencies.record(Duration::from_micros(10), 98);
        latencies.record(Duration::from_millis(3), 2);
        let mut all = Spread::default();
        latencies.add_to(&mut all);
        latencies.add_to(&mut all);
        assert_eq!(all.count(), 200);
        let mut more = all.clone();
        latencies.add_to(&mut more);
        let since = more.since(&all);
        assert_eq!((since.count(), since.buckets()), (100, latencies.spread().buckets()));
        assert!((since.seconds - 0.006_98).abs() < 1e-9, "{}", since.seconds);
        assert!((all.seconds - 2.0 * 0.006_98).abs() < 1e-9, "{}", all.seconds);
        for buckets in [all.buckets(), all.coarse_buckets()] {
            let buckets: Vec<_> = buckets.iter().map(|&(at, count)| (at, count as f64)).collect();
            let of = |share| quantile(&buckets, share).expect("requests");
            assert!((10e-6..16e-6).contains(&of(0.5)), "{}", of(0.5));
            assert!((10e-6..16e-6).contains(&of(0.98)), "{}", of(0.98));
            assert!((3e-3..4.5e-3).contains(&of(0.99)), "{}", of(0.99));
        }
    }
}
