//! After a crash, with one wrong byte anywhere in a step of several records in the last segment:
//! the step is recovered as a whole, where a key may return an error, or not at all.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::ops::Range;

use elastic::{Run, key};
use store::device::{Device, FileName};
use store::elastic::Error;
use store::{Faults, SimulatedDevice};

const SECTOR: usize = 512;
/// The keys of the step, and the lengths of their values: within a sector, over several, and short.
const STEP: [(u64, usize); 5] = [(12, 30), (13, 900), (14, 1), (15, 460), (16, 600)];
const OLD: u8 = 0x11;
const NEW: u8 = 0x22;
const NEWER: u8 = 0x33;

/// A durable step over older values, `gap` bytes after a durable record of another key.
fn stepped(gap: usize) -> Run {
    let mut run =
        Run::with(3, Faults::default(), |config| config.segment_bytes = 64 << 10).expect("opens");
    run.keys = 20;
    STEP.iter().for_each(|(number, _)| run.put_value(*number, &[OLD; 50]));
    run.put_value(17, &vec![OLD; gap]);
    run.make_durable();
    run.store.begin_step();
    STEP.iter().for_each(|(number, bytes)| run.put_value(*number, &vec![NEW; *bytes]));
    run.store.end_step();
    run.make_durable();
    run
}

/// The contents of a device's files.
type Files = Vec<(FileName, Vec<u8>)>;

fn files(device: &SimulatedDevice) -> Files {
    let read = |(name, bytes): (FileName, u64)| {
        (name, device.read(name, 0, bytes as usize).expect("reads"))
    };
    device.list().expect("lists").into_iter().map(read).collect()
}

fn device(files: &Files) -> SimulatedDevice {
    let device = SimulatedDevice::new(1, Faults::default());
    for (name, bytes) in files {
        device.create(*name, bytes.len() as u64).expect("creates");
        device.write(*name, 0, bytes).expect("writes");
        device.sync(*name).expect("syncs");
    }
    device
}

/// Index of the file that contains the step, and its range in the file.
fn step_in(files: &Files) -> (usize, Range<usize>) {
    let begins = |bytes: &[u8], number: u64, value: usize| {
        let (name, lengths) = (key(number), (value as u32).to_le_bytes());
        (4096..bytes.len() - 64)
            .step_by(16)
            .find(|at| bytes[at + 8..at + 12] == lengths && bytes[at + 24..].starts_with(&name))
    };
    let (first, last) = (STEP[0], STEP[STEP.len() - 1]);
    for (index, (name, bytes)) in files.iter().enumerate() {
        if matches!(name, FileName::Segment(_))
            && let Some(begin) = begins(bytes, first.0, first.1)
            && let Some(end) = begins(bytes, last.0, last.1)
        {
            return (index, begin..end + 40 + key(last.0).len() + last.1);
        }
    }
    panic!("no segment has the step");
}

/// For each key of the step after a restart: the first byte of its value, or the error.
fn held(run: &mut Run) -> Vec<Result<u8, Error>> {
    let value = |entry: Option<elastic::Entry>| entry.map_or(0, |(value, _)| value[0]);
    STEP.iter().map(|(number, _)| run.try_fetch(&key(*number)).map(value)).collect()
}

fn opened(run: &mut Run, files: &Files) -> Vec<Result<u8, Error>> {
    run.device = device(files);
    run.reopen();
    held(run)
}

/// True if the step was recovered in part only.
fn is_in_part(held: &[Result<u8, Error>]) -> bool {
    held.contains(&Ok(NEW)) && held.contains(&Ok(OLD))
}

#[test]
fn a_step_that_reached_the_disk_is_there() {
    for gap in [20, 2990] {
        let mut run = stepped(gap);
        let written = files(&run.device);
        let (index, step) = step_in(&written);
        for place in step {
            for bit in [place % 8, (place + 3) % 8] {
                let mut files = written.clone();
                files[index].1[place] ^= 1 << bit;
                let held = opened(&mut run, &files);
                let recovery = run.store.recovery();
                let all = held.iter().all(|held| held.as_ref().is_ok_and(|held| *held == NEW));
                let refused = held.iter().filter(|held| held.is_err()).count();
                let others = held.iter().filter(|held| **held == Ok(NEW)).count();
                // Padding belongs to no record.
                let is_good = if recovery.damage.is_empty() {
                    all
                } else {
                    refused == 1 && others == STEP.len() - 1
                };
                let at = place - 4096;
                assert!(is_good, "{gap}, byte {at}, bit {bit}: {held:?} {recovery:?}");
                assert!(recovery.cut.is_none(), "{gap}, byte {at}, bit {bit}: {recovery:?}");
            }
        }
    }
}

#[test]
fn a_step_of_which_a_part_was_lost_is_not_there_in_part() {
    let mut run = stepped(300);
    let written = files(&run.device);
    let (index, step) = step_in(&written);
    for lost in (step.start.next_multiple_of(SECTOR)..step.end).step_by(SECTOR) {
        // Loses everything from there on, or that sector only.
        for until in [written[index].1.len(), lost + SECTOR] {
            let mut torn = written.clone();
            torn[index].1[lost..until].fill(0);
            let held = opened(&mut run, &torn);
            assert!(held.iter().all(|held| *held == Ok(OLD)), "{lost}..{until}: {held:?}");
            for place in step.clone().filter(|place| torn[index].1[*place] != 0) {
                let mut files = torn.clone();
                files[index].1[place] ^= 1 << (place % 8);
                let held = opened(&mut run, &files);
                let recovery = run.store.recovery();
                let is_refused = held.iter().any(Result::is_err);
                assert!(
                    !is_in_part(&held) && (!is_refused || !recovery.damage.is_empty()),
                    "{lost}..{until}, byte {}: {held:?} {recovery:?}",
                    place - 4096
                );
            }
        }
    }
}

#[test]
fn a_torn_step_takes_no_durable_one_with_it() {
    let mut run = stepped(20);
    let (index, first) = step_in(&files(&run.device));
    run.store.begin_step();
    STEP.iter().for_each(|(number, bytes)| run.put_value(*number, &vec![NEWER; *bytes]));
    run.store.end_step();
    run.make_durable();
    let mut files = files(&run.device);
    let bytes = &mut files[index].1;
    // Of the first step, the header of the last record; of the second, all but its beginning.
    let last = first.end - STEP[4].1 - 40 - key(STEP[4].0).len();
    bytes[last..last + 24].fill(0xff);
    let lost = first.end.next_multiple_of(SECTOR) + SECTOR;
    bytes[lost..].fill(0);
    let held = opened(&mut run, &files);
    let recovery = run.store.recovery();
    assert!(!recovery.damage.is_empty(), "{recovery:?}");
    assert!(held[..4].iter().all(|held| *held == Ok(NEW)), "{held:?} {recovery:?}");
}
