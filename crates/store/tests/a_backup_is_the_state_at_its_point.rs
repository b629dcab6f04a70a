//! Backups while commands, compaction and crashes go on: a complete one is the store at its point,
//! whatever happened since, and an incomplete one is refused.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use std::time::Duration;

use elastic::{Map, Random, Run, visible};
use store::device::{Device, FileName};
use store::elastic::backup::{self, Contents, Copied, Earlier, Failure};
use store::elastic::{self as store_elastic, Config, Elastic, Error};
use store::{Faults, SimulatedDevice};

/// What happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    complete: u64,
    refused: u64,
    linked_bytes: u64,
    reused_bytes: u64,
    copied_bytes: u64,
}

/// A backup, and what it has to contain.
struct Made {
    device: SimulatedDevice,
    map: Map,
}

impl Made {
    fn check(&self) {
        let contents = Contents::load(&self.device).expect("it is complete");
        assert_eq!(backup::verify(&contents.shards[0], &self.device), []);
    }
}

fn restored(device: &SimulatedDevice) -> SimulatedDevice {
    let contents = Contents::load(device).expect("it is complete");
    let restored = SimulatedDevice::new(7, Faults::default());
    backup::restore(&contents.shards[0], device, &restored).expect("restored");
    restored.restart(Faults::default());
    restored
}

/// Opens a restored store, compares it with the map, and goes on with it.
fn compare(seed: u64, made: &Made, keys: u64, now: Duration) {
    let device = restored(&made.device);
    let checked = store_elastic::check(&device);
    assert_eq!((checked.damage, checked.cut), (Vec::new(), None));
    let config = Config { create: false, ..Config::default() };
    let store = Elastic::open(config, &device, now).expect("opens");
    assert_eq!((&store.recovery().damage[..], store.recovery().cut), (&[][..], None));
    let mut run = Run::new(seed, Faults::default()).expect("opens");
    run.continue_on(&device, store, &made.map);
    (run.keys, run.now) = (keys, now);
    let held = run.contents();
    assert!(held == visible(&made.map, now), "{} keys held", held.len());
    run.run(300);
    run.restart(Faults::default(), false);
}

/// Makes one backup, in which the machine of either side may stop.
fn back_up(
    run: &mut Run,
    random: &mut Random,
    earlier: &[Made],
    seen: &mut Seen,
) -> Option<(Made, Copied)> {
    let (point, mut kept) = run.store.begin_backup();
    let map = run.map.clone();
    for _ in 0..10_000 {
        if run.store.is_copyable(&point).expect("no failure") {
            break;
        }
        run.run(20);
    }
    assert!(run.store.is_copyable(&point).expect("no failure"), "never on disk");
    // Earlier backups are on the file system of this one.
    let refuses_links = random.one_in(2);
    let reuses = refuses_links && random.one_in(2);
    let crash_at = random.one_in(3).then(|| 1 + random.below(40));
    let device = SimulatedDevice::new(random.draw(), Faults { crash_at, ..Faults::default() });
    let crash_at =
        (crash_at.is_none() && random.one_in(4)).then(|| run.device.calls() + random.below(400));
    run.device.set_faults(Faults { crash_at, refuses_links, ..Faults::default() });
    let listed: Vec<(Contents, SimulatedDevice)> = earlier
        .iter()
        .map(|made| (Contents::load(&made.device).expect("complete"), made.device.clone()))
        .collect();
    let same: Vec<Earlier<'_, SimulatedDevice>> = listed
        .iter()
        .filter_map(|(contents, device)| Earlier::of(contents, 0, run.store.identity(), device))
        .collect();
    let (source, same) = (run.device.clone(), if reuses { &same[..] } else { &[] });
    let copied = backup::copy(&point, &source, &device, same, |left| {
        run.run(random.below(40) as usize);
        run.store.release_segments(&mut kept, left);
        Ok(())
    });
    run.store.end_backup(kept);
    let written = copied.and_then(|copied| {
        let shards = vec![copied.stored.clone()];
        Contents { point_ms: 1, shards }.store(&device).map(|()| copied)
    });
    let has_stopped = device.has_crashed() || run.device.has_crashed();
    assert!(written.is_ok() || has_stopped, "{:?}", written.err());
    device.restart(Faults::default());
    let loaded = Contents::load(&device);
    if run.device.has_crashed() {
        run.restart(Faults::default(), false);
    }
    run.device.set_faults(Faults::default());
    match (loaded, written) {
        (Ok(_), Ok(copied)) => {
            seen.complete += 1;
            seen.copied_bytes += copied.copied_bytes;
            let shared = if reuses { &mut seen.reused_bytes } else { &mut seen.linked_bytes };
            *shared += copied.linked_bytes;
            Some((Made { device, map }, copied))
        }
        // It stopped in the last sync.
        (Ok(contents), Err(_)) => {
            assert_eq!(backup::verify(&contents.shards[0], &device), []);
            None
        }
        (Err(error), Ok(_)) => panic!("it was complete: {error}"),
        (Err(error), Err(_)) => {
            assert!(matches!(error, Failure::Incomplete(_)), "{error}");
            seen.refused += 1;
            None
        }
    }
}

fn back_up_often(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed ^ 0xbac);
    let mut run = Run::new(seed, Faults::default()).expect("opens");
    run.steps = random.one_in(2);
    run.clears = random.one_in(4);
    run.value_bytes_max = run.value_bytes_max.max(2000);
    let mut made: Vec<Made> = Vec::new();
    for _ in 0..5 {
        run.run(random.below(1500) as usize);
        if random.one_in(4) {
            run.restart(Faults::default(), false);
        }
        if let Some((one, _)) = back_up(&mut run, &mut random, &made, seen) {
            made.push(one);
        }
    }
    for one in &made {
        one.check();
        compare(seed, one, run.keys, run.now);
    }
}

#[test]
fn whatever_happens_meantime() {
    let mut seen = Seen::default();
    for seed in 0..150 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            back_up_often(seed, &mut seen);
        }));
        if let Err(panic) = result {
            eprintln!("seed {seed} fails");
            std::panic::resume_unwind(panic);
        }
    }
    eprintln!("{seen:?}");
    let bytes = [seen.linked_bytes, seen.reused_bytes, seen.copied_bytes];
    assert!(bytes.iter().all(|bytes| *bytes > 0), "{seen:?}");
    assert!(seen.complete > 100 && seen.refused > 20, "{seen:?}");
}

/// A store with several segments, closed.
fn closed(seed: u64) -> Run {
    let mut run = Run::with(seed, Faults::default(), |config| config.segment_bytes = 64 << 10)
        .expect("opens");
    (run.clears, run.value_bytes_max) = (false, 3000);
    run.keys = run.keys.max(100);
    run.run(6000);
    run.settle();
    run.store.close();
    while !run.store.is_closed() {
        run.settle();
    }
    // Removes what is no longer part of it.
    run.settle();
    run
}

/// Damage is in that file.
fn names(damage: &[Error], file: FileName) -> bool {
    damage.iter().any(|error| match error {
        Error::Damaged { file: named, .. } | Error::ReadFailed { file: named, .. } => {
            *named == file
        }
        Error::Missing { files } => files.contains(&file),
        _ => false,
    })
}

#[test]
fn any_changed_byte_is_found_in_a_store() {
    let mut random = Random::new(3);
    for seed in 0..8 {
        let run = closed(seed);
        let checked = store_elastic::check(&run.device);
        assert_eq!(checked.damage, []);
        assert!(checked.segments > 3 && checked.records > 50, "{checked:?}");
        for (file, bytes) in run.device.list().expect("listed") {
            if file == FileName::Spill {
                continue;
            }
            let content = run.device.read(file, 0, bytes as usize).expect("read");
            for _ in 0..8 {
                let at = match file {
                    // The length of the list may look like a torn write.
                    FileName::Manifest(_) => random.below(8),
                    _ => random.below(bytes),
                };
                // What is zero may have no meaning.
                let Some(at) = (at..bytes).find(|at| content[*at as usize] != 0) else { continue };
                let bit = random.below(8) as u8;
                assert!(run.device.flip(file, at, bit));
                let damage = store_elastic::check(&run.device).damage;
                assert!(names(&damage, file), "seed {seed}: {file} at {at}: {damage:?}");
                run.device.flip(file, at, bit);
            }
        }
        assert_eq!(store_elastic::check(&run.device).damage, []);
    }
}

#[test]
fn any_changed_byte_is_found_in_a_backup() {
    let (mut random, mut seen) = (Random::new(4), Seen::default());
    let mut run = Run::new(5, Faults::default()).expect("opens");
    run.run(3000);
    let made = std::iter::from_fn(|| Some(back_up(&mut run, &mut random, &[], &mut seen)));
    let (made, _) = made.flatten().next().expect("one is complete");
    let contents = Contents::load(&made.device).expect("complete");
    for (file, bytes) in made.device.list().expect("listed") {
        for _ in 0..20 {
            let at = random.below(bytes);
            assert!(made.device.flip(file, at, 3));
            match (file, Contents::load(&made.device)) {
                (FileName::Backup, Err(Failure::Incomplete(_))) => {}
                // Spaces after the list.
                (FileName::Backup, Ok(loaded)) => assert_eq!(loaded, contents, "at {at}"),
                (_, Ok(loaded)) => {
                    let wrong = backup::verify(&loaded.shards[0], &made.device);
                    assert!(names(&wrong, file), "{file} at {at}: {wrong:?}");
                    let target = SimulatedDevice::new(1, Faults::default());
                    assert!(backup::restore(&loaded.shards[0], &made.device, &target).is_err());
                }
                (_, Err(error)) => panic!("{file} at {at}: {error}"),
            }
            made.device.flip(file, at, 3);
        }
    }
    made.check();
}

#[test]
fn writers_do_not_wait_for_a_backup() {
    let mut run = Run::new(11, Faults::default()).expect("opens");
    (run.keys, run.clears, run.value_bytes_max) = (50, false, 4000);
    run.run(5000);
    run.settle();
    let (_, kept) = run.store.begin_backup();
    let before = run.store.stats().written_bytes;
    for _ in 0..100 {
        run.run(500);
        for _ in 0..1000 {
            if run.store.accepts_writes().is_ok() {
                break;
            }
            run.settle();
        }
        assert_eq!(run.store.accepts_writes(), Ok(()), "it waits for the backup");
    }
    let (stats, kept_bytes) = (run.store.stats(), run.store.stats().file_bytes);
    assert!(stats.written_bytes - before > 20 * stats.live_bytes, "{stats:?}");
    run.store.end_backup(kept);
    run.settle();
    assert!(run.store.stats().file_bytes < kept_bytes, "the files are removed now");
}
