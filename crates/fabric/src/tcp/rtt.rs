//! Round-trip time: mean and deviation in integers (Jacobson and Karels), and the timeout.

use super::{RTO_MAX_NS, RTO_MIN_NS};

const CLOCK_GRANULARITY_NS: i64 = 10;
const INITIAL_NS: i64 = 106_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Rtt {
    mean_ns: i64,
    deviation_ns: i64,
    sampled: bool,
    timeout_ns: u64,
}

impl Rtt {
    pub(super) fn new() -> Self {
        let mut rtt = Self { mean_ns: INITIAL_NS, deviation_ns: 0, sampled: false, timeout_ns: 0 };
        rtt.reset_timeout();
        rtt
    }

    /// A segment sent at `sent_ns` was acknowledged, on a clock that ticks every `clock_ns`.
    pub(super) fn sample(&mut self, sent_ns: u64, clock_ns: u64, now_ns: u64) {
        let ticks = now_ns / clock_ns - sent_ns / clock_ns;
        let measured = if ticks == 0 { 1_000 } else { (ticks * clock_ns) as i64 };
        if self.sampled {
            let error = measured - self.mean_ns;
            self.mean_ns = ((self.mean_ns << 3) + error) >> 3;
            self.deviation_ns = ((self.deviation_ns << 2) + error.abs() - self.deviation_ns) >> 2;
        } else {
            self.sampled = true;
            self.mean_ns = measured;
            self.deviation_ns = measured / 2;
        }
        self.reset_timeout();
    }

    pub(super) fn mean_ns(&self) -> i64 {
        if self.sampled { self.mean_ns } else { 0 }
    }

    pub(super) fn reset_timeout(&mut self) {
        let estimate = self.mean_ns + (4 * self.deviation_ns).max(CLOCK_GRANULARITY_NS);
        self.timeout_ns = (estimate as u64).max(RTO_MIN_NS);
    }

    pub(super) fn double_timeout(&mut self) {
        self.timeout_ns = (2 * self.timeout_ns).min(RTO_MAX_NS);
    }

    pub(super) fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }
}
