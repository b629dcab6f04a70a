//! A full disk: writes fail with a specific error, reads continue, and space that is freed is used.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::Run;
use store::Faults;
use store::elastic::Error;

const SEGMENT: u64 = 64 << 10;

/// A store that has filled a disk of `segments` segments.
fn full(seed: u64, segments: u64) -> Run {
    let faults = Faults { room_bytes: Some(4096 + segments * SEGMENT), ..Faults::default() };
    let mut run = Run::new(seed, faults).expect("opens");
    run.keys = 1000;
    run.value_bytes_max = 6000;
    for _ in 0..200 {
        run.run(200);
        if run.refused_full > 0 {
            return run;
        }
    }
    panic!("the disk is never full");
}

fn accepts_again(run: &mut Run) -> bool {
    for _ in 0..200 {
        run.settle();
        run.now += std::time::Duration::from_millis(300);
        match run.store.accepts_writes() {
            Ok(()) => return true,
            Err(Error::Full { .. } | Error::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    false
}

#[test]
fn reads_go_on_and_more_room_is_used() {
    for seed in 0..20 {
        let mut run = full(seed, 14);
        run.settle();
        let map = run.map.clone();
        for (key, entry) in map {
            let expected = entry.1.is_none_or(|at| at > run.now).then_some(entry);
            let held = run.fetch(&key);
            assert!(held == expected || expected.is_some_and(|entry| entry.1.is_some()));
        }
        run.device.set_faults(Faults::default());
        assert!(accepts_again(&mut run), "seed {seed}");
        run.run(2000);
        run.restart(Faults::default(), false);
    }
}

#[test]
fn removing_makes_room() {
    for seed in 0..20 {
        let mut run = full(seed, 14);
        for number in 0..900 {
            if let Err(error) = run.remove(number) {
                panic!("seed {seed}, {number} removed: {error}; {:?}", run.store.stats());
            }
            run.settle();
        }
        assert!(accepts_again(&mut run), "seed {seed}");
        run.restart(Faults::default(), false);
    }
}
