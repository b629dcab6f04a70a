//! Bits that flip at rest, reads and writes that fail.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::{Random, Run};
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
        flip_some(&run, &mut Random(seed));
        // Every load is compared with the model: what is not as written has to fail.
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
        run.settle();
        let position = run.store.flush();
        for _ in 0..1000 {
            run.settle();
            if run.store.durable_up_to() >= position {
                break;
            }
        }
        flip_some(&run, &mut Random(seed));
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
                // Another key has the same hash: whose record is damaged cannot be told.
                Err(Error::Damaged { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            tickets.into_iter().for_each(|ticket| run.store.release(ticket));
        }
    }
    assert!(replaced > 0, "nothing was damaged");
}
