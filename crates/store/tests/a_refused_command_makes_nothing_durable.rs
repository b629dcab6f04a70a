//! The device refuses a command in the middle of a run: for lack of space, or with an error. What
//! the store reports as durable survives the crash that follows, and nothing that the crash leaves
//! is taken for damage.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::io::ErrorKind::{self, StorageFull};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::{cell::Cell, time::Duration};

use elastic::{Random, Refusal, Run};
use store::Faults;
use store::device::{Device, DeviceCommand, FileName, Operation};
use store::elastic::Error;

const SEGMENT: u64 = 64 << 10;

fn run(seed: u64, steps: bool) -> Run {
    let change = |config: &mut store::elastic::Config| config.segment_bytes = SEGMENT;
    let mut run = Run::with(seed, Faults::default(), change).expect("opens");
    run.steps = steps;
    run
}

/// Crashes, and opens the store again.
fn crash(run: &mut Run) {
    run.refusal = None;
    run.restart(Faults::default(), false);
    assert_eq!(run.store.recovery().damage, [], "a crash is no damage");
}

/// Runs until the device has refused something.
fn run_into(run: &mut Run, refusal: Refusal) {
    run.refusal = Some(refusal);
    for _ in 0..2000 {
        if run.refused() > 0 {
            return;
        }
        run.run(10);
    }
    panic!("nothing was refused");
}

/// Runs until the store accepts writes again.
fn recover(run: &mut Run) {
    for _ in 0..200 {
        run.settle();
        match run.store.accepts_writes() {
            Ok(()) => return,
            Err(Error::Full { .. } | Error::Busy { .. }) => run.now += Duration::from_millis(300),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no write is accepted any more");
}

fn whatever_the_seed(seeds: u64, refusal: impl Fn(&Run) -> Refusal) {
    for seed in 0..seeds {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut random = Random::new(seed ^ 0xfe);
            let mut run = run(seed, seed % 2 == 1);
            run.run(random.below(600) as usize);
            let refusal = refusal(&run);
            run_into(&mut run, refusal);
            run.run(random.below(150) as usize);
            match random.below(3) {
                0 => {}
                1 => {
                    run.refusal = None;
                    recover(&mut run);
                    run.run(random.below(600) as usize);
                }
                // What was refused is written, and never synced.
                _ => {
                    let is_sync =
                        |command: &DeviceCommand| matches!(command.operation, Operation::Sync);
                    run.refusal = Some(Refusal::new(ErrorKind::Other, is_sync));
                    run.now += Duration::from_secs(1);
                    run.run(random.below(80) as usize);
                }
            }
            crash(&mut run);
        }));
        if let Err(panic) = result {
            eprintln!("seed {seed} fails");
            resume_unwind(panic);
        }
    }
}

/// A write to a segment, and whether it reaches the segment's end, where the trailer is.
fn segment_write(run: &Run) -> impl Fn(&DeviceCommand) -> Option<bool> + 'static {
    let device = run.device.clone();
    move |command| {
        let (FileName::Segment(_), Operation::Write { offset, bytes }) =
            (command.file, &command.operation)
        else {
            return None;
        };
        let files = device.list().expect("listed");
        let (_, length) = files.iter().find(|(name, _)| *name == command.file)?;
        Some(offset + bytes.len() as u64 >= *length)
    }
}

/// Regression: the sync that followed was one of the next segment, whose file is empty, and the
/// records before the trailer counted as durable.
#[test]
fn a_segment_whose_trailer_has_no_room_is_not_durable() {
    whatever_the_seed(200, |run| {
        let segment_write = segment_write(run);
        Refusal::new(StorageFull, move |command| segment_write(command) == Some(true))
    });
}

/// Regression: records written later stated that the refused ones were durable, so recovery took
/// for damage what the crash had left of these.
#[test]
fn records_without_room_are_not_durable() {
    whatever_the_seed(200, |run| {
        let segment_write = segment_write(run);
        Refusal::new(StorageFull, move |command| segment_write(command) == Some(false))
    });
}

#[test]
fn a_manifest_without_room_lists_nothing_new() {
    whatever_the_seed(100, |_| {
        Refusal::new(StorageFull, |command| matches!(command.file, FileName::Manifest(_)))
    });
}

/// What a failed command does to the store.
fn after_an_error(run: &mut Run, refused: &Cell<Option<(FileName, bool)>>) {
    let Some((file, is_removal)) = refused.get() else { return };
    if file == FileName::Spill || is_removal {
        return;
    }
    let error = run.store.accepts_writes().expect_err("refused");
    assert!(matches!(error, Error::WriteFailed { .. }), "{error}");
    // A command of the log may have been in progress.
    run.run(100);
    let durable = run.store.durable_up_to();
    run.run(100);
    assert_eq!(run.store.durable_up_to(), durable, "a failed {file} makes nothing durable");
}

/// Every command of a run fails once, after it was carried out or before.
#[test]
fn every_command_of_one_run() {
    for seed in [21, 22, 23, 24] {
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        let mut whole = run(seed, seed % 2 == 1);
        whole.refusal = Some(Refusal::new(StorageFull, move |command| {
            let is_change = !matches!(command.operation, Operation::Read { .. });
            counted.set(counted.get() + u64::from(is_change));
            false
        }));
        whole.run(1000);
        assert!(count.get() > 50, "only {} commands", count.get());
        for meant in 1..=count.get() {
            let error = if (meant + seed) % 2 == 0 { StorageFull } else { ErrorKind::Other };
            let mut run = run(seed, seed % 2 == 1);
            let refused = Rc::new(Cell::new(None));
            let (noted, mut number) = (Rc::clone(&refused), 0);
            run.refusal = Some(Refusal {
                has_effect: meant % 4 < 2,
                ..Refusal::new(error, move |command| {
                    number += u64::from(!matches!(command.operation, Operation::Read { .. }));
                    let is_removal = matches!(command.operation, Operation::Remove);
                    if number == meant && noted.get().is_none() {
                        noted.set(Some((command.file, is_removal)));
                        return true;
                    }
                    false
                })
            });
            run.run(1000);
            if error == ErrorKind::Other {
                after_an_error(&mut run, &refused);
            }
            crash(&mut run);
        }
    }
}
