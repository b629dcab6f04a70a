//! `enroute db --autoscale` in the real process: memory grows until lookups are fast enough, stays
//! constant, and shrinks when less suffices.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::database::Database;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MIB: u64 = 1 << 20;
const KEYS: u64 = 40_000;
const VALUE_BYTES: usize = 4_096;
const MAX_MIB: u64 = 512;
const GROWING: Duration = Duration::from_secs(150);
const SHRINKING_MAX: Duration = Duration::from_secs(15 * 60);

fn memory(database: &Database) -> u64 {
    let answer: i64 = redis::cmd("RESCALE").query(&mut database.connection()).expect("an answer");
    answer as u64 / MIB
}

/// Returns the memory after every change, in MiB, while clients look up the first `keys` keys,
/// until `enough` or for `time`.
fn observe(
    database: &Database,
    wanted: &AtomicU64,
    keys: u64,
    time: Duration,
    enough: impl Fn(u64) -> bool,
) -> Vec<u64> {
    wanted.store(keys, SeqCst);
    let began = Instant::now();
    let mut seen = vec![memory(database)];
    while began.elapsed() < time && !seen.last().is_some_and(|&last| enough(last)) {
        thread::sleep(Duration::from_millis(500));
        let now = memory(database);
        if seen.last() != Some(&now) {
            eprintln!("{keys} keys, {:.0?}: {now} MiB", began.elapsed());
            seen.push(now);
        }
    }
    seen
}

/// Returns the number of changes of direction.
fn turns(seen: &[u64]) -> usize {
    let ups: Vec<bool> = seen.windows(2).map(|pair| pair[1] > pair[0]).collect();
    ups.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
#[ignore = "up to fifteen minutes: make soak"]
fn memory_grows_until_lookups_are_fast_and_shrinks_when_less_is_enough() {
    // Less than any read from disk takes: 99 of 100 lookups must be served from memory.
    let goal = format!("p99=5us,max={MAX_MIB}MiB");
    let database = Database::start_with(&["--memory", "32MiB", "--autoscale", &goal]);
    let mut connection = database.connection();
    for number in 0..KEYS {
        let value = vec![number as u8; VALUE_BYTES];
        redis::cmd("SET").arg(number).arg(value).query::<()>(&mut connection).expect("an answer");
    }
    let (wanted, ended) = (AtomicU64::new(KEYS), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..4 {
            let (wanted, ended, mut connection) = (&wanted, &ended, database.connection());
            scope.spawn(move || {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                while ended.load(SeqCst) == 0 {
                    let number = random.random_range(0..wanted.load(SeqCst));
                    let get = redis::cmd("GET").arg(number).query::<Vec<u8>>(&mut connection);
                    assert_eq!(get.expect("an answer").len(), VALUE_BYTES);
                }
            });
        }
        // 160 MiB of values, with uniform lookups.
        let grown = observe(&database, &wanted, KEYS, GROWING, |_| false);
        let most = *grown.last().expect("it was seen");
        // A tenth of them: the curve forgets the others within minutes.
        let shrunk =
            observe(&database, &wanted, KEYS / 10, SHRINKING_MAX, |now| now < most * 3 / 4);
        ended.store(1, SeqCst);
        eprintln!("{grown:?} {shrunk:?}");
        assert!((160..MAX_MIB).contains(&most), "{grown:?}");
        assert!(*shrunk.last().expect("it was seen") < most * 3 / 4, "{shrunk:?}");
        assert!(turns(&grown) <= 1 && turns(&shrunk) <= 1, "it oscillates: {grown:?} {shrunk:?}");
    });
}
