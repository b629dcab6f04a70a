//! A closed store has no torn end, so any unreadable record is damage. In a store that was not
//! closed, so is an unreadable record before the position up to which later records prove that the
//! log was durable. The key of a damaged record is an error, never absent.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::{Random, Run, key};
use store::device::{Device, FileName};
use store::elastic::Error;
use store::{Faults, SimulatedDevice};

fn filled(seed: u64) -> Run {
    let mut run = Run::new(seed, Faults::default()).expect("opens");
    run.run(1500);
    run
}

/// Every key has its value or is refused; returns the number of refused keys.
fn refused(run: &mut Run, seed: u64) -> usize {
    let (now, mut refused) = (run.now, 0);
    for (key, entry) in run.map.clone() {
        let expected = entry.1.is_none_or(|at| at > now).then_some(entry);
        let name = String::from_utf8_lossy(&key).into_owned();
        match run.try_fetch(&key) {
            Ok(held) => assert!(held == expected, "seed {seed}, {name}: {}", held.is_some()),
            Err(Error::Damaged { .. }) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    refused
}

#[test]
fn whatever_call_of_closing_it_the_machine_stops_at() {
    for seed in 0..40 {
        let mut run = filled(seed);
        let calls = run.device.calls();
        assert!(run.close());
        // The last iteration stops at the first call after closing.
        let calls_max = run.device.calls() - calls + 1;
        let is_closed = (1..=calls_max).any(|call| {
            let mut run = filled(seed);
            let crash_at = Some(run.device.calls() + call);
            run.device.set_faults(Faults { crash_at, ..Faults::default() });
            let is_closed = run.close();
            run.restart(Faults::default(), call % 2 == 0);
            let recovery = run.store.recovery();
            assert!(recovery.damage.is_empty(), "seed {seed}, call {call}: {recovery:?}");
            assert!(!is_closed || recovery.cut.is_none(), "seed {seed}, call {call}: {recovery:?}");
            is_closed
        });
        assert!(is_closed, "seed {seed}: not closed within {calls_max} calls");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_damage() {
    let (mut met, mut counted) = (0, 0);
    for seed in 0..150 {
        let mut run = filled(seed);
        assert!(run.close());
        let mut random = Random::new(seed);
        let segments: Vec<_> = run.device.list().expect("lists");
        let segments: Vec<_> =
            segments.into_iter().filter(|(name, _)| matches!(name, FileName::Segment(_))).collect();
        let (name, length) = segments[random.below(segments.len() as u64) as usize];
        assert!(run.device.flip(name, random.below(length), random.draw() as u8));
        run.reopen();
        assert!(run.store.recovery().cut.is_none(), "seed {seed}");
        counted += run.store.recovery().damage.len();
        met += refused(&mut run, seed);
    }
    eprintln!("{met} keys refused, {counted} places found at the start");
    assert!(met > 10 && counted > 3, "damage was met only {met} and {counted} times");
}

/// Returns the position and length of the record of that key in the segments.
fn record_of(device: &SimulatedDevice, key: &[u8]) -> (FileName, u64, u64) {
    for (name, length) in device.list().expect("lists") {
        let bytes = device.read(name, 0, length as usize).expect("reads");
        let ends = bytes.len().saturating_sub(24 + key.len());
        let is_key = |&at: &usize| {
            let length = u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]);
            usize::from(length) == key.len() && bytes[at + 24..].starts_with(key)
        };
        if matches!(name, FileName::Segment(_))
            && let Some(at) = (4096..ends).step_by(16).find(is_key)
        {
            let value = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four"));
            return (name, at as u64, 40 + key.len() as u64 + u64::from(value));
        }
    }
    panic!("no record of {}", String::from_utf8_lossy(key));
}

/// Sixty entries in an unsealed segment, and with `more` another one in a group of its own.
fn unsealed(more: bool) -> Run {
    let mut run =
        Run::with(3, Faults::default(), |config| config.segment_bytes = 64 << 10).expect("opens");
    run.keys = 61;
    for number in 0..60 {
        run.put_value(number, &[number as u8 + 1; 200]);
    }
    run.make_durable();
    if more {
        run.put_value(60, &[61; 200]);
        run.make_durable();
    }
    run
}

#[test]
fn a_byte_of_a_segment_that_was_not_sealed() {
    for more in [true, false] {
        for place in (0..240).step_by(7) {
            let mut run = unsealed(more);
            // The first twelve keys share their hashes.
            let number = 12 + place * 7 % 48;
            let (file, at, bytes) = record_of(&run.device, &key(number));
            run.device.flip(file, at + place % bytes, (place / 7) as u8);
            run.reopen();
            let recovery = run.store.recovery().clone();
            assert!(recovery.cut.is_none(), "{more} {place}: {recovery:?}");
            assert_eq!(recovery.damage.len(), 1, "{more} {place}");
            assert_eq!(refused(&mut run, place), 1, "{more} {place}");
            assert!(run.try_fetch(&key(number)).is_err());
            // The same after the store was closed and opened again.
            assert!(run.close());
            run.reopen();
            assert_eq!(refused(&mut run, place), 1, "{more} {place}");
        }
    }
}

#[test]
fn many_bytes_of_a_value() {
    let mut run = unsealed(true);
    let (file, at, _) = record_of(&run.device, &key(30));
    (100..180).for_each(|place| assert!(run.device.flip(file, at + place, 3)));
    run.reopen();
    assert_eq!(refused(&mut run, 0), 1);
    assert!(run.try_fetch(&key(30)).is_err());
}
