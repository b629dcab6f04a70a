//! Hit ratios on deterministic traces, ranked as the policies' papers rank them.
//!
//! `cargo run --release -p store --example replacement_table` prints the numbers.

mod traces;

use store::Replacement::{self, Clock, Fifo, Lru, S3Fifo, Sieve, WTinyLfu};

fn ratios(trace: &[u64]) -> impl Fn(Replacement) -> f64 + use<> {
    let measured =
        Replacement::ALL.map(|policy| (policy, traces::hit_ratio(policy, trace, traces::ITEMS)));
    move |wanted| measured.iter().find(|(policy, _)| *policy == wanted).expect("all are measured").1
}

#[test]
fn on_skewed_accesses_the_lazy_and_the_frequent_beat_lru_and_lru_beats_fifo() {
    let ratio = ratios(&traces::zipf());
    assert!(ratio(Fifo) < ratio(Lru));
    assert!(ratio(Lru) < ratio(Clock));
    for better in [Sieve, S3Fifo, WTinyLfu] {
        assert!(ratio(Clock) + 0.01 < ratio(better), "{better:?}");
    }
}

#[test]
fn one_hit_wonders_are_sifted_out_by_sieve_and_s3_fifo() {
    let ratio = ratios(&traces::one_hit_wonders());
    for better in [Sieve, S3Fifo, WTinyLfu] {
        assert!(ratio(Lru) + 0.05 < ratio(better), "{better:?}");
    }
}

#[test]
fn scans_pass_by_w_tiny_lfu_and_s3_fifo() {
    let without = ratios(&traces::zipf());
    let trace = traces::scans();
    let scanned = trace.len() as f64 / traces::zipf().len() as f64;
    let ratio = ratios(&trace);
    let lost = |policy| without(policy) - ratio(policy) * scanned;
    for resistant in [S3Fifo, WTinyLfu] {
        assert!(
            lost(resistant) < lost(Lru) / 4.0,
            "{resistant:?}: {} of {}",
            lost(resistant),
            lost(Lru)
        );
    }
}

#[test]
fn a_loop_defeats_lru_and_not_w_tiny_lfu() {
    let ratio = ratios(&traces::ring());
    for nothing in [Fifo, Lru, Clock] {
        assert_eq!(ratio(nothing), 0.0, "{nothing:?}");
    }
    assert!(ratio(WTinyLfu) > 0.5);
}
