//! Lower bound of the mean latency.

use super::{KEYS, ROUND_TRIP};
use crate::workload::Summary;

/// Lower bound of the mean, in milliseconds, for this capacity: the first read of each key and a
/// share `1 − capacity/keys` of the other reads take one round trip; the rest take the time of a
/// hit on this machine. `distinct` is the number of keys that were read at least once.
pub(super) fn mean_ms(capacity: usize, distinct: usize, summary: &Summary) -> f64 {
    let reads = summary.reads as f64;
    let first = distinct as f64;
    let share = capacity as f64 / KEYS as f64;
    let misses = first + (reads - first) * (1.0 - share);
    let hits = reads - misses;
    (misses * ROUND_TRIP.as_secs_f64() * 1e3 + hits * summary.hit_p50_ms) / reads.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_reads_and_what_does_not_fit_take_a_round_trip() {
        // 100 first reads and 100 repeated reads of 100 keys, half of which fit; hits take 1 ms.
        let summary = Summary { reads: 200, hit_p50_ms: 1.0, ..Summary::default() };
        assert!((mean_ms(50, 100, &summary) - (150.0 * 164.0 + 50.0) / 200.0).abs() < 1e-9);
        assert!((mean_ms(0, 100, &summary) - 164.0).abs() < 1e-9);
    }
}
