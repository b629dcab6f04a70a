//! Segments of short records have a parity block instead of a list of records; a restart reads the
//! records. A torn end is cut off, damage is an error, and no older value takes its place.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use elastic::{Random, Run, key};
use store::Faults;
use store::device::{Device, FileName};
use store::elastic::{Config, Elastic, Error, Sync};

const BLOCK_BYTES: usize = 4096;
/// Bytes before the key in a record, and between its key and its value.
const HEAD_BYTES: usize = 24;
const BODY_BYTES: usize = 16;

/// All segments, the oldest first.
fn segments(run: &Run) -> Vec<(FileName, Vec<u8>)> {
    let mut files = run.device.list().expect("lists");
    files.retain(|(name, _)| matches!(name, FileName::Segment(_)));
    files.sort_unstable();
    let read = |(name, length)| (name, run.device.read(name, 0, length as usize).expect("reads"));
    files.into_iter().map(read).collect()
}

fn has_parity(segment: &[u8]) -> bool {
    let trailer = &segment[segment.len() - BLOCK_BYTES..];
    trailer.starts_with(b"enrtlog1") && trailer[32] == 1
}

#[test]
fn what_a_crash_tears_is_cut() {
    let (mut with_parity, mut cuts) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut run = Run::new(seed, Faults::default()).expect("opens");
        (run.clears, run.keys, run.value_bytes_max) = (false, 1000, 100);
        for _ in 0..4 {
            let crash_at = Some(1 + random.below(1000));
            run.device.set_faults(Faults { crash_at, ..Faults::default() });
            run.run(3000);
            // Compares the content with what was durable.
            run.restart(Faults::default(), random.one_in(3));
            let recovery = run.store.recovery();
            assert_eq!(recovery.damage, [], "seed {seed}: a torn record was reported as damage");
            cuts += usize::from(recovery.cut.is_some());
            with_parity += segments(&run).iter().filter(|(_, bytes)| has_parity(bytes)).count();
        }
    }
    assert!(with_parity > 200 && cuts > 10, "only {with_parity} segments, {cuts} cut");
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("round {round} of {number}: {}", "x".repeat(number as usize % 40)).into_bytes()
}

/// Keys with distinct hashes.
const KEYS: Range<u64> = 20..1500;

/// Every entry written twice; both records of some are on disk.
fn written_twice() -> Run {
    let change =
        |config: &mut Config| (config.segment_bytes, config.sync) = (64 << 10, Sync::Always);
    let mut run = Run::with(1, Faults::default(), change).expect("opens");
    run.keys = KEYS.end;
    for round in 0..2 {
        for number in KEYS {
            run.put_value(number, &value(number, round));
            // Settles in between, so that a segment is written in many parts.
            run.settle();
        }
    }
    let position = run.store.flush();
    while run.store.durable_up_to() < position {
        run.settle();
    }
    run
}

/// Returns the position of the last record of every key whose segment has a parity block and is not
/// the last.
fn last_records(run: &Run) -> BTreeMap<u64, (FileName, usize)> {
    let numbers: BTreeMap<Vec<u8>, u64> = KEYS.map(|number| (key(number), number)).collect();
    let segments = segments(run);
    let in_use = |bytes: &[u8]| bytes.starts_with(b"enrtlog1");
    let last = segments.iter().rfind(|(_, bytes)| in_use(bytes)).expect("there are some").0;
    let mut records = BTreeMap::new();
    for (file, bytes) in &segments {
        for at in (BLOCK_BYTES..bytes.len() - 2 * BLOCK_BYTES).step_by(16) {
            let (name, key_bytes) = (&bytes[at + HEAD_BYTES..], usize::from(bytes[at + 6]));
            let Some(&number) = numbers.get(&name[..key_bytes]) else { continue };
            if name[key_bytes + BODY_BYTES..].starts_with(&value(number, 1)) {
                // A record that compaction moved has the same bytes; the newest counts.
                let counts = has_parity(bytes) && *file != last;
                records.insert(number, counts.then_some((*file, at)));
            }
        }
    }
    records.into_iter().filter_map(|(number, place)| Some((number, place?))).collect()
}

/// Opens the store again; every entry must be the last one written or, if it is one of `expected`,
/// an error that names its position.
fn reopen(run: &mut Run, expected: &BTreeMap<u64, (FileName, usize)>) {
    run.device.restart(Faults::default());
    let config = run.config();
    let store = Elastic::open(config, &run.device, run.now).expect("opens");
    let place = |error: &Error| match error {
        Error::Damaged { file, offset, .. } => (*file, *offset as usize),
        error => panic!("{error}"),
    };
    let reported: BTreeSet<_> = store.recovery().damage.iter().map(place).collect();
    assert_eq!(reported, expected.values().copied().collect(), "places reported");
    run.adopt(store);
    for number in KEYS {
        match (run.try_fetch(&key(number)), expected.get(&number)) {
            (Ok(held), None) => {
                assert_eq!(held, Some((value(number, 1), None)), "entry {number}");
            }
            (Err(error), Some(expected)) => assert_eq!(place(&error), *expected),
            (held, expected) => panic!("entry {number}: {held:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn a_flipped_bit_is_reported_and_nothing_older_is_served() {
    let mut run = written_twice();
    reopen(&mut run, &BTreeMap::new());
    // Checksum, kind, step, lengths of key and value, mark, kills, key, version, expiry, value.
    for (turn, place) in [0, 4, 5, 6, 7, 8, 11, 13, 16, 20, 24, 31, 33, 41, 50].iter().enumerate() {
        let records: Vec<_> = last_records(&run).into_iter().collect();
        assert!(records.len() > 500, "only {} records", records.len());
        let (number, (file, at)) = records[records.len() / 16 * turn];
        let place = at as u64 + place;
        assert!(run.device.flip(file, place, turn as u8));
        reopen(&mut run, &BTreeMap::from([(number, (file, at))]));
        assert!(run.device.flip(file, place, turn as u8), "the bit was flipped back");
    }
}

#[test]
fn a_flipped_bit_in_the_last_record_of_a_segment_is_reported_too() {
    let mut run = written_twice();
    reopen(&mut run, &BTreeMap::new());
    let (file, _) = *last_records(&run).first_key_value().expect("there are many").1;
    let records = last_records(&run).into_iter().filter(|(_, (other, _))| *other == file);
    let (number, (_, at)) = records.max_by_key(|(_, (_, at))| *at).expect("there are some");
    assert!(run.device.flip(file, at as u64 + 30, 1));
    reopen(&mut run, &BTreeMap::from([(number, (file, at))]));
}

#[test]
fn flipped_bits_all_over_a_segment_are_each_reported() {
    let mut run = written_twice();
    let records = last_records(&run);
    let (_, &(file, _)) = records.last_key_value().expect("there are many");
    // One in each block, at a different offset of its block.
    let (mut damaged, mut blocks) = (BTreeMap::new(), BTreeSet::new());
    for (&number, &(other, at)) in &records {
        let (block, column) = (at / BLOCK_BYTES, at % BLOCK_BYTES / 256);
        if other == file && block == column && at % 256 < 128 && blocks.insert(block) {
            assert!(run.device.flip(file, at as u64 + 9, 3));
            damaged.insert(number, (file, at));
        }
    }
    assert!(damaged.len() > 3, "{damaged:?}");
    reopen(&mut run, &damaged);
}

#[test]
fn a_lost_block_is_reported_and_nothing_older_is_served() {
    let mut run = written_twice();
    let records = last_records(&run);
    let (_, &(file, at)) = records.last_key_value().expect("there are many");
    let block = at / BLOCK_BYTES * BLOCK_BYTES;
    run.device.write(file, block as u64, &[0; BLOCK_BYTES]).expect("written");
    run.device.sync(file).expect("synced");
    run.device.restart(Faults::default());
    let config = run.config();
    let store = Elastic::open(config, &run.device, run.now).expect("opens");
    let damaged = store.recovery().damage.len();
    run.adopt(store);
    let mut refused = 0;
    for number in KEYS {
        match run.try_fetch(&key(number)) {
            Ok(held) => assert_eq!(held, Some((value(number, 1), None)), "entry {number}"),
            Err(Error::Damaged { file: other, .. }) if other == file => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    // Some of the lost records may have been dead.
    assert!(refused > 5 && damaged >= refused, "{refused} refused, {damaged} reported");
}
