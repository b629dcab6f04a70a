//! Latency, number and hit ratio of reads.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longer latencies are recorded as this one.
const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Latencies are kept to this many significant digits.
const DIGITS: u8 = 3;

/// Source of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cache.
    Hit,
    /// The origin.
    Miss,
}

/// Everything recorded so far; all zero before the first read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Reads answered.
    pub reads: u64,
    /// Reads per second, until the last was answered.
    pub reads_per_s: f64,
    /// Share of hits, 0 to 1.
    pub hit_ratio: f64,
    /// Arithmetic mean, in milliseconds, as all below.
    pub mean_ms: f64,
    /// Half of the reads took no longer.
    pub p50_ms: f64,
    /// 99 of 100 reads took no longer.
    pub p99_ms: f64,
    /// Half of the hits took no longer.
    pub hit_p50_ms: f64,
}

/// Records reads as they are answered.
#[derive(Clone, Debug)]
pub struct Recorder {
    all_ns: Histogram<u64>,
    hits_ns: Histogram<u64>,
    ended_at: Duration,
}

impl Default for Recorder {
    fn default() -> Self {
        let bounds = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, DIGITS);
        let empty = bounds.expect("1 ns to an hour with three digits is a valid range");
        Self { all_ns: empty.clone(), hits_ns: empty, ended_at: Duration::ZERO }
    }
}

impl Recorder {
    /// A read that took `latency` was answered.
    pub fn record(&mut self, outcome: Outcome, latency: Duration, now: Duration) {
        let latency_ns = latency.min(LATENCY_MAX).as_nanos() as u64;
        self.all_ns.saturating_record(latency_ns);
        if outcome == Outcome::Hit {
            self.hits_ns.saturating_record(latency_ns);
        }
        self.ended_at = now;
    }

    /// Summary of all reads so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let reads = self.all_ns.len();
        if reads == 0 {
            return Summary::default();
        }
        let quantile_ms = |latencies_ns: &Histogram<u64>, share| {
            latencies_ns.value_at_quantile(share) as f64 / 1e6
        };
        Summary {
            reads,
            reads_per_s: reads as f64 / self.ended_at.as_secs_f64(),
            hit_ratio: self.hits_ns.len() as f64 / reads as f64,
            mean_ms: self.all_ns.mean() / 1e6,
            p50_ms: quantile_ms(&self.all_ns, 0.5),
            p99_ms: quantile_ms(&self.all_ns, 0.99),
            hit_p50_ms: quantile_ms(&self.hits_ns, 0.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn about(measured: f64, expected: f64) {
        assert!((measured - expected).abs() <= expected / 500.0, "{measured}, not {expected}");
    }

    #[test]
    fn a_summary_says_mean_percentiles_rate_and_hits() {
        let mut recorder = Recorder::default();
        for step in 1..=100 {
            let outcome = if step <= 60 { Outcome::Hit } else { Outcome::Miss };
            recorder.record(outcome, step * MS, step * 20 * MS);
        }
        let summary = recorder.summary();
        assert_eq!((summary.reads, summary.hit_ratio), (100, 0.6));
        about(summary.reads_per_s, 50.0);
        about(summary.mean_ms, 50.5);
        about(summary.p50_ms, 50.0);
        about(summary.p99_ms, 99.0);
        about(summary.hit_p50_ms, 30.0);
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Recorder::default().summary(), Summary::default());
    }

    #[test]
    fn absurd_latencies_are_bounded() {
        let mut recorder = Recorder::default();
        recorder.record(Outcome::Miss, Duration::MAX, MS);
        about(recorder.summary().p99_ms, LATENCY_MAX.as_secs_f64() * 1e3);
        recorder.record(Outcome::Hit, Duration::ZERO, MS);
        assert_eq!(recorder.summary().reads, 2);
    }
}
