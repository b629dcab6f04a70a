//! What the whole process of `enroute db` has resident stays within `--memory`, however many entries
//! there are, and every entry is still found.

mod support;

use std::fs;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use support::database::Database;

const MIB: u64 = 1 << 20;
/// Keys of one MSET.
const BATCH: u64 = 500;
/// Requests on their way at once.
const PIPELINE: u64 = 20;

/// What `field` of the process's status says, in bytes: `VmHWM:`, `VmRSS:`.
fn status(database: &Database, field: &str) -> u64 {
    let path = format!("/proc/{}/status", database.process().id());
    let text = fs::read_to_string(path).expect("it is up");
    let line = text.lines().find(|line| line.starts_with(field)).expect("a field of Linux");
    let kilobytes = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}

fn key(number: u64) -> String {
    format!("k{number}")
}

fn fill(entries: u64, memory_mib: u64) {
    let memory = format!("{memory_mib}MiB");
    let database = Database::start_with(&["--memory", &memory, "--sync", "no"]);
    let mut connection = database.connection();
    let began = Instant::now();
    let mut next = 0;
    while next < entries {
        let mut pipeline = redis::pipe();
        for _ in 0..PIPELINE {
            let mut mset = redis::cmd("MSET");
            for number in next..(next + BATCH).min(entries) {
                mset.arg(key(number)).arg(number);
            }
            next = (next + BATCH).min(entries);
            pipeline.add_command(mset).ignore();
            if next == entries {
                break;
            }
        }
        pipeline.query::<()>(&mut connection).expect("an answer");
        if next % (entries / 10) < BATCH * PIPELINE {
            let resident = status(&database, "VmRSS:") / MIB;
            eprintln!("{next} entries after {:.0?}: {resident} MiB", began.elapsed());
        }
    }
    let count: u64 = redis::cmd("DBSIZE").query(&mut connection).expect("an answer");
    assert_eq!(count, entries);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..40 {
        let numbers: Vec<u64> = (0..50).map(|_| random.random_range(0..entries)).collect();
        let keys: Vec<String> = numbers.iter().map(|&number| key(number)).collect();
        let found: Vec<u64> = redis::cmd("MGET").arg(keys).query(&mut connection).expect("numbers");
        assert_eq!(found, numbers);
    }
    // The most it ever was, not what it is now.
    let most = status(&database, "VmHWM:");
    eprintln!("{entries} entries with {memory}: {:.1} MiB at most", most as f64 / MIB as f64);
    assert!(most <= memory_mib * MIB, "{most} bytes were resident of {memory}");
}

#[test]
fn half_a_million_entries_in_sixty_four_mebibytes() {
    fill(500_000, 64);
}

#[test]
#[ignore = "ten minutes: make soak"]
fn ten_million_entries_in_sixty_four_mebibytes() {
    fill(10_000_000, 64);
}
