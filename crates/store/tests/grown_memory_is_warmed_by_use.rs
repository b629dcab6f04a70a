//! After memory grows, the entries looked up most are read ahead (or all in order, as in the
//! paper), without other effects.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::time::Duration;

use elastic::Run;
use store::Faults;
use store::elastic::{Elastic, Warming};

const HOT: u64 = 400;

/// A store of 2000 entries of 4 KiB of which few fit into memory; the first 400 are looked up
/// often. Then memory grows to half of all. Returns the number of hot entries in memory that no
/// lookup has read.
fn hot_after_growing(warming: Warming) -> u64 {
    let mut run =
        Run::with(7, Faults::default(), |config| config.warming = warming).expect("opens");
    run.clears = false;
    run.store.rescale(Elastic::MEMORY_BYTES_MIN);
    run.keys = 2000;
    run.value_bytes_max = 1;
    for number in 0..run.keys {
        run.put_value(number, &[number as u8; 4096]);
        run.settle();
    }
    for round in 0..40 {
        for number in 0..HOT {
            run.fetch_number((number * 7 + round) % HOT);
        }
    }
    let (before, went_on) = (run.store.stats(), run.went_on);
    run.frozen = true;
    run.store.rescale(Elastic::MEMORY_BYTES_MIN + (4 << 20) + (1 << 19));
    for _ in 0..10_000 {
        let warmed = run.store.stats().warmed;
        run.settle();
        // In between, lookups find the disk and the processors idle.
        assert!(run.store.stats().warmed - warmed <= 2, "too many in a millisecond");
        run.now += Duration::from_millis(1);
        if !run.store.is_warming() {
            break;
        }
    }
    assert!(!run.store.is_warming(), "it never ends");
    let after = run.store.stats();
    assert!(after.memory_bytes <= after.memory_bytes_max, "{after:?}");
    assert_eq!(after.record_reads, before.record_reads, "records were read without a lookup");
    assert_eq!(run.went_on, went_on, "upkeep continues in the next millisecond");
    let hits = run.store.stats().hits;
    for number in 0..HOT {
        let key = elastic::key(number);
        if matches!(run.store.load_to_read(&key, run.now), store::elastic::Load::Present) {}
    }
    run.store.stats().hits - hits
}

#[test]
fn by_use_the_hot_ones_by_walk_whatever_comes_first() {
    let off = hot_after_growing(Warming::Off);
    let walk = hot_after_growing(Warming::Sequential);
    let useful = hot_after_growing(Warming::Useful);
    eprintln!("hot entries in memory: {off} unwarmed, {walk} by walk, {useful} by use");
    assert!(useful > HOT * 9 / 10 && useful > walk && walk > off, "{off} {walk} {useful}");
}
