//! Bit flips at rest, and failing reads and writes.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::collections::{BTreeMap, BTreeSet};

use elastic::{Random, Run, key};
use store::Faults;
use store::device::{Device, FileName};
use store::elastic::{Elastic, Error, Load};

fn flip_some(run: &Run, random: &mut Random) {
    let files: Vec<(FileName, u64)> = run.device.list().expect("lists");
    let segments: Vec<_> =
        files.iter().filter(|(name, _)| matches!(name, FileName::Segment(_))).collect();
    for _ in 0..1 + random.below(8) {
        let (name, length) = segments[random.below(segments.len() as u64) as usize];
        assert!(run.device.flip(*name, random.below(*length), random.draw() as u8));
    }
}

#[test]
fn flipped_bits_while_serving() {
    let mut failed = 0;
    for seed in 0..100 {
        let mut run = Run::new(seed, Faults::default()).expect("opens");
        run.store.rescale(Elastic::MEMORY_BYTES_MIN);
        run.clears = false;
        run.keys = 1000;
        run.value_bytes_max = 6000;
        run.run(4000);
        flip_some(&run, &mut Random::new(seed));
        // Every load is compared with the model: a damaged entry must fail.
        run.run(1500);
        failed += run.failed_loads;
    }
    assert!(failed > 20, "damage was met only {failed} times");
}

#[test]
fn flipped_bits_before_a_restart() {
    let (mut damaged, mut lost) = (0, 0);
    for seed in 0..100 {
        let mut run = Run::new(seed, Faults::default()).expect("opens");
        run.run(2000);
        run.make_durable();
        flip_some(&run, &mut Random::new(seed));
        run.device.restart(Faults::default());
        let store = Elastic::open(run.config(), &run.device, run.now).expect("opens");
        let recovery = store.recovery().clone();
        let known = !recovery.damage.is_empty() || recovery.cut.is_some();
        damaged += usize::from(known);
        run.adopt(store);
        for (key, entry) in run.map.clone() {
            let now = run.now;
            match run.try_fetch(&key) {
                Err(Error::Damaged { .. }) => lost += 1,
                Err(error) => panic!("seed {seed}: {error}"),
                Ok(held) => {
                    let expected = entry.1.is_none_or(|at| at > now).then_some(entry);
                    assert!(held == expected || known, "seed {seed}: unnoticed loss");
                    assert!(
                        held.is_none_or(|held| run.was_written(&key, &held)),
                        "seed {seed}: never written"
                    );
                }
            }
        }
    }
    assert!(damaged > 5 && lost > 20, "damage was met only {damaged} and {lost} times");
}

#[test]
fn reads_that_fail() {
    let mut failed = 0;
    for seed in 0..50 {
        let mut run = Run::new(seed, Faults::default()).expect("opens");
        run.device.set_faults(Faults { failing_read_in: 5, ..Faults::default() });
        run.run(3000);
        failed += run.failed_loads;
        run.restart(Faults::default(), false);
    }
    assert!(failed > 20, "reads failed only {failed} times");
}

#[test]
fn writes_that_fail_stop_writing_and_lose_nothing_promised() {
    let mut stopped = 0;
    for seed in 0..100 {
        let mut run = Run::new(seed, Faults::default()).expect("opens");
        run.device.set_faults(Faults { failing_write_in: 40, ..Faults::default() });
        run.run(2000);
        stopped +=
            usize::from(matches!(run.store.accepts_writes(), Err(Error::WriteFailed { .. })));
        run.restart(Faults::default(), false);
    }
    assert!(stopped > 50, "writes failed for only {stopped} seeds");
}

#[test]
fn what_is_damaged_can_be_written_again() {
    let mut run = Run::new(3, Faults::default()).expect("opens");
    run.store.rescale(Elastic::MEMORY_BYTES_MIN);
    (run.clears, run.keys, run.value_bytes_max) = (false, 1000, 6000);
    run.run(5000);
    for (name, length) in run.device.list().expect("lists") {
        if matches!(name, FileName::Segment(_)) {
            for offset in (4100..length - 4096).step_by(64) {
                run.device.flip(name, offset, 1);
            }
        }
    }
    let mut replaced = 0;
    for key in run.map.clone().into_keys() {
        if run.try_fetch(&key).is_err() {
            let mut tickets = Vec::new();
            while let Load::Pending(ticket) = run.store.load(&key, run.now) {
                tickets.push(ticket);
                run.wait_for(ticket);
            }
            match run.store.write(&key, b"new value", None, run.now) {
                Ok(_) => {
                    assert_eq!(run.fetch(&key), Some((b"new value".to_vec(), None)));
                    replaced += 1;
                }
                // Another key has the same hash, and it is unknown which record is damaged.
                Err(Error::Damaged { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            tickets.into_iter().for_each(|ticket| run.store.release(ticket));
        }
    }
    assert!(replaced > 0, "nothing was damaged");
}

/// Returns the position of the record of that key, which was written once.
fn record_of(run: &Run, key: &[u8]) -> (FileName, u64) {
    for (name, length) in run.device.list().expect("lists") {
        let bytes = run.device.read(name, 0, length as usize).expect("reads");
        let is_key = |&at: &usize| {
            let length = u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]);
            usize::from(length) == key.len() && bytes[at + HEAD_BYTES..].starts_with(key)
        };
        let ends = bytes.len().saturating_sub(HEAD_BYTES + key.len());
        if matches!(name, FileName::Segment(_))
            && let Some(at) = (SEGMENT_HEAD_BYTES..ends).step_by(16).find(is_key)
        {
            return (name, at as u64);
        }
    }
    panic!("no record of {}", String::from_utf8_lossy(key));
}

/// Bytes before the key in a record, and before the records in a segment.
const HEAD_BYTES: usize = 24;
const SEGMENT_HEAD_BYTES: usize = 4096;

#[test]
fn a_scan_passes_over_what_is_damaged_and_nothing_else() {
    let mut run = Run::new(7, Faults::default()).expect("opens");
    run.keys = 300;
    for number in 0..run.keys {
        run.put_value(number, &[number as u8; 3000]);
    }
    run.make_durable();
    // Memory is empty after a restart.
    run.device.restart(Faults::default());
    let config = run.config();
    run.adopt(Elastic::open(config, &run.device, run.now).expect("opens"));
    let (mut lost, mut damaged) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..run.keys {
        let (file, record) = record_of(&run, &key(number));
        // Bits of the checksum, the kind, the length of the key and of the value, the key, the
        // value.
        let Some(at) = [0, 4, 6, 11, HEAD_BYTES as u64, 2000].get(number as usize % 20) else {
            continue;
        };
        assert!(run.device.flip(file, record + at, number as u8));
        damaged.insert((file, record));
        if matches!(at, 6 | 24) {
            lost.insert(key(number));
        }
    }
    let scanned = run.scan_all();
    let expected: BTreeSet<_> = (0..run.keys).map(key).filter(|key| !lost.contains(key)).collect();
    assert_eq!(scanned.len(), expected.len(), "a key was scanned twice");
    assert_eq!(scanned.into_iter().map(Vec::from).collect::<BTreeSet<_>>(), expected);
    assert_eq!(run.passed_over, lost.len() as u64);
    let mut reported = BTreeSet::new();
    while let Some(error) = run.store.poll_damage() {
        let Error::Damaged { file, offset, .. } = error else { panic!("{error}") };
        reported.insert((file, offset));
    }
    assert_eq!(reported, damaged);
    // The value of a key that a scan returned is still not served.
    let refused = (0..run.keys).filter(|&number| run.try_fetch(&key(number)).is_err()).count();
    assert_eq!(refused, damaged.len());
    // Random draws continue, too; some of them find nothing.
    let drawn = (0..1000).filter_map(|_| run.random_key()).count();
    assert!((800..1000).contains(&drawn), "{drawn} of 1000 draws");
}

#[test]
fn a_scan_goes_on_at_the_next_page_of_a_damaged_table() {
    let mut run = Run::new(1, Faults::default()).expect("opens");
    run.store.rescale(Elastic::MEMORY_BYTES_MIN);
    run.keys = 30_000;
    for number in 0..run.keys {
        run.put_value(number, b"value");
    }
    run.settle();
    let (pages, resident) = run.store.stats().table_pages;
    assert!(resident < pages, "all pages are in memory");
    for page in 0..pages as u64 {
        let at = page * 4096 + 100;
        let byte = |run: &Run| run.device.read(FileName::Spill, at, 1).expect("reads");
        let whole = byte(&run);
        assert!(run.device.flip(FileName::Spill, at, 3));
        let scanned = run.scan_all().len() as u64;
        if run.passed_over > 0 {
            assert_eq!(run.passed_over, 1);
            assert!((run.keys - 400..run.keys).contains(&scanned), "{scanned}");
            return;
        }
        // That page was in memory; it may have been written again since.
        assert_eq!(scanned, run.keys);
        run.settle();
        if byte(&run) != whole {
            run.device.flip(FileName::Spill, at, 3);
        }
    }
    panic!("no page was read back");
}

/// Counts the reports of each position.
fn reports(run: &mut Run) -> BTreeMap<(FileName, u64), usize> {
    let mut reports = BTreeMap::new();
    while let Some(error) = run.store.poll_damage() {
        match error {
            Error::Damaged { file, offset, .. } | Error::ReadFailed { file, offset, .. } => {
                *reports.entry((file, offset)).or_default() += 1;
            }
            error => panic!("{error}"),
        }
    }
    reports
}

#[test]
fn upkeep_that_meets_damaged_pages_of_the_table_reports_each_once_and_goes_on() {
    let mut run = Run::new(5, Faults::default()).expect("opens");
    run.store.rescale(Elastic::MEMORY_BYTES_MIN);
    run.keys = 45_000;
    for number in 0..run.keys {
        run.put_value(number, b"value");
    }
    run.settle();
    let (pages, resident) = run.store.stats().table_pages;
    assert!(resident < pages, "all pages are in memory");
    for page in (0..pages as u64).step_by(3) {
        run.device.flip(FileName::Spill, page * 4096 + 100, 3);
    }
    // Overwrites half of the entries, as far as possible, so that there is much to compact.
    let reads = run.store.stats().page_reads;
    for number in 0..run.keys / 2 {
        run.put(number);
        run.settle();
    }
    run.settle();
    let reads = run.store.stats().page_reads - reads;
    let reports = reports(&mut run);
    eprintln!("{} places, {reads} reads", reports.len());
    assert!(reports.len() > 10, "damage was met only {} times", reports.len());
    assert!(reports.values().all(|times| *times == 1), "{reports:?}");
    assert!(reads < 4 * run.keys, "{reads} reads of pages");
}
