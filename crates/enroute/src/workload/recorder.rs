//! How long answers took, how many there were, and how many came from the cache.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer latencies are recorded as this one.
const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Latencies are kept to this many significant digits.
const DIGITS: u8 = 3;

/// The series keeps one entry per second up to this many, a day.
const SERIES_SECONDS_MAX: usize = 86_400;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cache answered.
    Hit,
    /// The origin answered.
    Miss,
    /// It was answered; by whom is not known.
    Answered,
    /// There was no good answer. Its latency is left out.
    Failed,
}

/// Everything recorded over some time, in the units its names say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Operations answered.
    pub answered: u64,
    /// Operations which failed.
    pub failed: u64,
    /// Share of hits among hits and misses, 0 to 1; `None` where neither is known.
    pub hit_ratio: Option<f64>,
    /// How long this is a summary of.
    pub seconds: f64,
    /// Answers per second.
    pub answered_per_second: f64,
    /// Arithmetic mean.
    pub latency_ns_mean: f64,
    /// Half of the answers took no longer.
    pub latency_ns_p50: u64,
    /// 99 of 100 answers took no longer.
    pub latency_ns_p99: u64,
    /// The slowest answer.
    pub latency_ns_max: u64,
}

/// Records operations as they end.
#[derive(Clone, Debug)]
pub struct Recorder {
    total: Tally,
    second: Tally,
    /// The second `second` is about, counted from the start.
    second_number: u64,
    series: Vec<Summary>,
    ended_at: Duration,
}

#[derive(Clone, Debug)]
struct Tally {
    latencies_ns: Histogram<u64>,
    hits: u64,
    misses: u64,
    failed: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            total: Tally::new(),
            second: Tally::new(),
            second_number: 0,
            series: Vec::new(),
            ended_at: Duration::ZERO,
        }
    }
}

impl Recorder {
    /// An operation that took `latency` has ended.
    pub fn record(&mut self, outcome: Outcome, latency: Duration, now: Duration) {
        self.turn_seconds(now);
        self.ended_at = self.ended_at.max(now);
        self.total.record(outcome, latency);
        self.second.record(outcome, latency);
    }

    /// All so far: the rate is over the time until the last operation ended.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.total.summary(self.ended_at)
    }

    /// What happens now: the last whole second, or all so far during the first.
    pub fn latest(&mut self, now: Duration) -> Summary {
        self.turn_seconds(now);
        self.series.last().copied().unwrap_or_else(|| self.total.summary(now))
    }

    /// One summary for each whole second so far, those without any operation included.
    pub fn series(&mut self, now: Duration) -> &[Summary] {
        self.turn_seconds(now);
        &self.series
    }

    fn turn_seconds(&mut self, now: Duration) {
        while self.second_number < now.as_secs() && self.series.len() < SERIES_SECONDS_MAX {
            self.series.push(self.second.summary(Duration::from_secs(1)));
            self.second.clear();
            self.second_number += 1;
        }
    }
}

impl Tally {
    fn new() -> Self {
        let bounds = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, DIGITS);
        let latencies_ns = bounds.expect("1 ns to an hour with three digits is a valid range");
        Self { latencies_ns, hits: 0, misses: 0, failed: 0 }
    }

    fn record(&mut self, outcome: Outcome, latency: Duration) {
        match outcome {
            Outcome::Hit => self.hits += 1,
            Outcome::Miss => self.misses += 1,
            Outcome::Answered => {}
            Outcome::Failed => {
                self.failed += 1;
                return;
            }
        }
        let latency_ns = latency.min(LATENCY_MAX).as_nanos() as u64;
        self.latencies_ns.saturating_record(latency_ns);
    }

    fn clear(&mut self) {
        self.latencies_ns.reset();
        (self.hits, self.misses, self.failed) = (0, 0, 0);
    }

    fn summary(&self, time: Duration) -> Summary {
        let answered = self.latencies_ns.len();
        let known = self.hits + self.misses;
        let seconds = time.as_secs_f64();
        Summary {
            answered,
            failed: self.failed,
            hit_ratio: (known > 0).then(|| self.hits as f64 / known as f64),
            seconds,
            answered_per_second: if seconds > 0.0 { answered as f64 / seconds } else { 0.0 },
            latency_ns_mean: self.latencies_ns.mean(),
            latency_ns_p50: self.latencies_ns.value_at_quantile(0.5),
            latency_ns_p99: self.latencies_ns.value_at_quantile(0.99),
            latency_ns_max: self.latencies_ns.max(),
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
    fn a_summary_says_mean_percentiles_maximum_rate_and_hits() {
        let mut recorder = Recorder::default();
        for step in 1..=100 {
            let outcome = if step <= 75 { Outcome::Hit } else { Outcome::Miss };
            recorder.record(outcome, step * MS, step * 20 * MS);
        }
        recorder.record(Outcome::Failed, 900 * MS, 2000 * MS);
        let summary = recorder.summary();
        assert_eq!((summary.answered, summary.failed, summary.hit_ratio), (100, 1, Some(0.75)));
        about(summary.latency_ns_mean, 50.5e6);
        about(summary.latency_ns_p50 as f64, 50e6);
        about(summary.latency_ns_p99 as f64, 99e6);
        about(summary.latency_ns_max as f64, 100e6);
        about(summary.answered_per_second, 50.0);
    }

    #[test]
    fn each_second_is_on_its_own() {
        let mut recorder = Recorder::default();
        recorder.record(Outcome::Miss, 9 * MS, 500 * MS);
        assert_eq!(recorder.latest(900 * MS).hit_ratio, Some(0.0), "all so far");
        recorder.record(Outcome::Hit, MS, 2100 * MS);
        recorder.record(Outcome::Hit, MS, 2200 * MS);
        let series: Vec<_> = recorder
            .series(3000 * MS)
            .iter()
            .map(|second| (second.answered, second.hit_ratio))
            .collect();
        assert_eq!(series, [(1, Some(0.0)), (0, None), (2, Some(1.0))]);
        about(recorder.latest(3000 * MS).latency_ns_max as f64, 1e6);
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Recorder::default().summary(), Summary::default());
    }

    #[test]
    fn absurd_latencies_are_bounded() {
        let mut recorder = Recorder::default();
        recorder.record(Outcome::Answered, Duration::MAX, MS);
        recorder.record(Outcome::Answered, Duration::ZERO, MS);
        let summary = recorder.summary();
        about(summary.latency_ns_max as f64, LATENCY_MAX.as_nanos() as f64);
        assert_eq!((summary.answered, summary.hit_ratio), (2, None));
    }
}
