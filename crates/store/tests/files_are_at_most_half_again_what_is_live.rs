//! Space is reclaimed while serving, also in small stores.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::Run;
use store::Faults;
use store::device::{Device, FileName};
use store::elastic::Config;

/// Overwrites uniformly in a store of a tenth of the size for which segments have full length;
/// returns the maximum ratio of file sizes to live data.
fn overwrite(entries: u64, value_bytes: usize, memory_bytes: Option<usize>) -> f64 {
    let change = |config: &mut Config| {
        config.segment_bytes = 1 << 20;
        config.memory_bytes = memory_bytes.unwrap_or(config.memory_bytes);
    };
    let mut run = Run::with(1, Faults::default(), change).unwrap();
    run.keys = entries;
    for number in 0..entries {
        run.put_value(number, &vec![1; value_bytes]);
    }
    let mut most: f64 = 0.0;
    for _ in 0..4 * entries {
        let number = run.random.below(entries);
        run.put_value(number, &vec![2; value_bytes]);
        run.store.step(run.now);
        let stats = run.store.stats();
        most = most.max(stats.file_bytes as f64 / stats.live_bytes as f64);
    }
    let stats = run.store.stats();
    assert!(stats.compacted_bytes > 0, "nothing was reclaimed: {stats:?}");
    assert!(run.went_on > 0, "upkeep did not continue after reads of compaction");
    let copied = stats.compacted_bytes as f64 / stats.written_bytes as f64;
    eprintln!(
        "{entries} of {value_bytes} bytes: files took {most:.3} times the live data, {copied:.2} copied for \
         each written: {stats:?}"
    );
    most
}

#[test]
fn under_overwrite() {
    assert!(overwrite(2_500, 4096, None) <= 1.5);
}

/// Memory has room for the whole table, which tells what is live.
#[test]
fn under_overwrite_of_short_values() {
    assert!(overwrite(80_000, 64, Some(16 << 20)) <= 1.5);
}

#[test]
fn under_overwrite_with_everything_in_memory() {
    assert!(overwrite(2_500, 4096, Some(32 << 20)) <= 1.5);
}

/// The table spills, and compaction waits for its pages.
#[test]
fn under_overwrite_of_short_values_with_little_memory() {
    assert!(overwrite(80_000, 64, Some(4 << 20)) <= 1.5);
}

/// Spare segments and other fixed costs exceed the live data.
#[test]
fn what_a_small_store_takes_besides_is_a_few_short_segments() {
    const SHORTEST: u64 = 128 << 10;
    let mut run = Run::with(4, Faults::default(), |config| config.segment_bytes = 1 << 20).unwrap();
    run.keys = 3_000;
    let mut most = 0;
    for _ in 0..60_000 {
        let number = run.random.below(run.keys);
        run.put_value(number, &[4; 64]);
        run.store.step(run.now);
        let stats = run.store.stats();
        most = most.max(stats.file_bytes.saturating_sub(stats.live_bytes * 115 / 100));
    }
    // Eleven, and the one that exceeded them before writes were delayed.
    assert!(most <= 12 * SHORTEST, "{most} bytes, {} segments", most / SHORTEST);
}

/// The first segment reserves space for footer lines and is never as full as later ones.
#[test]
fn what_is_dead_from_the_beginning_goes() {
    let mut run = Run::with(3, Faults::default(), |config| config.segment_bytes = 1 << 20).unwrap();
    run.keys = 150;
    for _ in 0..30_000 {
        let number = run.random.below(run.keys);
        run.put_value(number, &[3; 64]);
        run.store.step(run.now);
        run.settle();
    }
    let files = run.device.list().expect("lists");
    let first = files.iter().filter_map(|(name, _)| match name {
        FileName::Segment(number) => Some(*number),
        _ => None,
    });
    let first = first.min().expect("there are segments");
    assert!(first > 10, "the oldest segment left is {first}");
    assert_eq!(run.store.stats().compacted_bytes, 0, "all is dead before compaction reads it");
}

/// A record longer than the segments of a small store gets a segment of its own length.
#[test]
fn a_long_record_has_a_segment_of_its_own_length() {
    let mut run = Run::with(2, Faults::default(), |config| config.segment_bytes = 1 << 20).unwrap();
    run.keys = 40;
    let long = vec![7; 900_000];
    for number in 0..run.keys {
        run.put_value(number, if number % 8 == 3 { &long } else { &[1; 100] });
    }
    run.settle();
    run.restart(Faults::default(), false);
    let entry = run.fetch_number(11).expect("it was stored");
    assert!(entry.0 == long, "another value");
}
