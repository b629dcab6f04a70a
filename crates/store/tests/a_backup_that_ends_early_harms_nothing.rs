//! Backups that end early: their disk is full or fails, that of the store is full, the store is
//! stopped, the machine stops while one is restored. What is left of them is refused, and the store
//! goes on.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::time::Duration;

use elastic::{Map, Random, Run, visible};
use store::elastic::backup::{self, Contents, Copied, Failure, Kept, Point};
use store::elastic::{Config, Elastic, Error};
use store::{Faults, SimulatedDevice};

const SEGMENT: u64 = 64 << 10;

/// A store with a few segments.
fn run(seed: u64, faults: Faults) -> Run {
    let change = |config: &mut Config| config.segment_bytes = SEGMENT;
    let mut run = Run::with(seed, faults, change).expect("opens");
    (run.clears, run.value_bytes_max) = (false, 3000);
    run.keys = run.keys.clamp(60, 120);
    run.run(3000);
    run.settle();
    run
}

/// Begins a backup, and waits until it can be copied.
fn begin(run: &mut Run) -> (Point, Kept, Map) {
    let (point, kept) = run.store.begin_backup();
    let map = run.map.clone();
    for _ in 0..1000 {
        if run.store.is_copyable(&point).expect("no failure") {
            return (point, kept, map);
        }
        run.run(20);
    }
    panic!("its point is never on disk");
}

/// Copies it to `device` while the store goes on.
fn copy(
    run: &mut Run,
    (point, mut kept): (Point, Kept),
    device: &SimulatedDevice,
) -> Result<Copied, Failure> {
    let source = run.device.clone();
    let copied = backup::copy(&point, &source, device, &[], |left| {
        run.run(20);
        run.store.is_copyable(&point).map_err(|error| Failure::Ended(error.to_string()))?;
        run.store.release_segments(&mut kept, left);
        Ok(())
    });
    run.store.end_backup(kept);
    let copied = copied?;
    let shards = vec![copied.stored.clone()];
    Contents { point_ms: 1, shards }.store(device)?;
    Ok(copied)
}

/// A complete backup of the store as it is now.
fn whole(run: &mut Run) -> (SimulatedDevice, Map) {
    let (point, kept, map) = begin(run);
    let device = SimulatedDevice::new(9, Faults::default());
    copy(run, (point, kept), &device).expect("complete");
    (device, map)
}

/// Runs until the store accepts writes, and goes on.
fn goes_on(run: &mut Run) {
    for _ in 0..400 {
        run.settle();
        match run.store.accepts_writes() {
            Ok(()) => break,
            Err(Error::Full { .. } | Error::Busy { .. }) => run.now += Duration::from_millis(300),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(run.store.accepts_writes(), Ok(()));
    run.run(500);
    run.restart(Faults::default(), false);
    assert_eq!(run.store.recovery().damage, []);
}

/// What is left is refused; or, if only the last sync failed, has everything.
fn assert_refused(device: &SimulatedDevice) {
    device.restart(Faults::default());
    match Contents::load(device) {
        Err(Failure::Incomplete(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(contents) => assert_eq!(backup::verify(&contents.shards[0], device), []),
    }
}

#[test]
fn its_disk_is_full_or_fails() {
    let (mut random, mut refused, mut full) = (Random::new(1), 0, 0);
    for seed in 0..50 {
        let mut run = run(seed, Faults::default());
        let (point, kept, _) = begin(&mut run);
        run.device.set_faults(Faults { refuses_links: random.one_in(2), ..Faults::default() });
        let room_bytes = Some(random.below(4 * SEGMENT));
        let faults = if random.one_in(2) {
            Faults { room_bytes, ..Faults::default() }
        } else {
            Faults { failing_write_in: 1 + random.below(20), ..Faults::default() }
        };
        let device = SimulatedDevice::new(random.draw(), faults);
        match copy(&mut run, (point, kept), &device) {
            Ok(_) => drop(Contents::load(&device).expect("complete")),
            Err(Failure::Unwritable { reason, .. }) => {
                refused += 1;
                full += u64::from(reason.kind() == std::io::ErrorKind::StorageFull);
                assert_refused(&device);
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
        goes_on(&mut run);
        whole(&mut run);
    }
    assert!(refused > 20 && full > 5, "{refused} refused, {full} for lack of space");
}

/// A backup keeps files that compaction would remove: if the disk is full because of them, the
/// backup ends, not the writers.
#[test]
fn the_disk_of_the_store_is_full() {
    let mut ended = 0;
    for seed in 0..30 {
        let mut run = run(seed, Faults::default());
        let room_bytes = Some(run.store.stats().file_bytes + 4096 + (32 << 10) + 6 * SEGMENT);
        run.device.set_faults(Faults { room_bytes, refuses_links: true, ..Faults::default() });
        let (point, kept, _) = begin(&mut run);
        let outcome = (0..400).find_map(|_| {
            run.run(100);
            run.store.is_copyable(&point).err()
        });
        if let Some(error) = outcome {
            ended += 1;
            assert!(matches!(error, Error::Full { .. }), "{error}");
        }
        run.store.end_backup(kept);
        goes_on(&mut run);
        whole(&mut run);
    }
    assert!(ended > 5, "the disk was full {ended} times");
}

#[test]
fn the_store_is_stopped() {
    let mut random = Random::new(2);
    for seed in 0..15 {
        let mut run = run(seed, Faults::default());
        let (point, kept, _) = begin(&mut run);
        run.run(random.below(2000) as usize);
        run.store.close();
        let device = SimulatedDevice::new(seed, Faults::default());
        // The thread that copies holds segments while the store closes.
        assert!(run.close(), "it closes");
        let stopped = copy(&mut run, (point, kept), &device).expect_err("it is closing");
        assert!(matches!(stopped, Failure::Ended(_)), "{stopped}");
        assert_refused(&device);
        let held = run.contents();
        run.reopen();
        let recovery = run.store.recovery();
        assert_eq!((&recovery.damage[..], recovery.cut), (&[][..], None));
        assert!(run.contents() == held);
    }
}

#[test]
fn the_machine_stops_while_it_is_restored() {
    for seed in 0..3 {
        let mut source = run(seed, Faults::default());
        let (made, map) = whole(&mut source);
        let contents = Contents::load(&made).expect("complete");
        let restore = |to: &SimulatedDevice| backup::restore(&contents.shards[0], &made, to);
        let unharmed = SimulatedDevice::new(seed, Faults::default());
        restore(&unharmed).expect("restored");
        for call in 1..=unharmed.calls() {
            let faults = Faults { crash_at: Some(call), ..Faults::default() };
            let device = SimulatedDevice::new(seed ^ call, faults);
            restore(&device).expect_err("it stopped");
            device.restart(Faults::default());
            restore(&device).expect("restored over what was left");
            device.restart(Faults::default());
            let config = Config { create: false, ..source.config() };
            let store = Elastic::open(config, &device, source.now).expect("opens");
            assert_eq!(store.recovery().damage, []);
            let mut again = run(seed, Faults::default());
            (again.keys, again.now) = (source.keys, source.now);
            again.continue_on(&device, store, &map);
            assert!(again.contents() == visible(&map, source.now), "seed {seed}, call {call}");
        }
    }
}
