//! On a full disk the real process refuses writes with the reason, continues to serve reads and
//! removals, and accepts writes again once there is space, however it was freed.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::database::Database;
use crate::support::origins::is_root;
use crate::support::process::PATIENCE;
use redis::Connection;

/// A small separate disk for the database, a third of which other files use.
const ROOT: &str = "a small file system of its own needs root";
const BEFORE: &str =
    "mount -t tmpfs -o size=96m none \"$1\"; head -c 30000000 /dev/zero > \"$1/ballast\"";

fn set(connection: &mut Connection, number: usize, bytes: usize) -> Result<(), String> {
    let answer = redis::cmd("SET").arg(key(number)).arg(value(number, bytes)).query(connection);
    answer.map_err(|error| error.to_string())
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn value(number: usize, bytes: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(bytes, number as u8);
    value
}

/// Stores keys from `next` on until a write is refused for lack of space; returns their number.
fn fill(connection: &mut Connection, next: usize, bytes: usize) -> usize {
    let (mut number, began, mut slowest) = (next, Instant::now(), Duration::ZERO);
    loop {
        assert!(began.elapsed() < PATIENCE, "{number} values, and the disk is not full yet");
        let asked = Instant::now();
        let answer = set(connection, number, bytes);
        slowest = slowest.max(asked.elapsed());
        if let Err(refusal) = answer {
            assert!(refusal.contains("MISCONF") && refusal.contains("disk full"), "{refusal}");
            eprintln!(
                "{} values of {bytes} bytes in {:.1?}, the slowest {slowest:.1?}; then {refusal}",
                number - next,
                began.elapsed()
            );
            return number - next;
        }
        number += 1;
    }
}

fn check(connection: &mut Connection, numbers: impl Iterator<Item = usize>, bytes: usize) {
    for number in numbers {
        let found: Option<Vec<u8>> =
            redis::cmd("GET").arg(key(number)).query(connection).expect("an answer");
        assert!(found == Some(value(number, bytes)), "{}", key(number));
    }
}

fn remove(connection: &mut Connection, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let began = Instant::now();
        loop {
            match redis::cmd("DEL").arg(key(number)).query::<usize>(connection) {
                Ok(count) => break assert_eq!(count, 1, "{}", key(number)),
                Err(refusal) => assert!(began.elapsed() < PATIENCE, "{refusal}"),
            }
        }
    }
}

/// Waits until writes are accepted again.
fn wait_for_room(connection: &mut Connection, number: usize, bytes: usize) {
    let began = Instant::now();
    while let Err(refusal) = set(connection, number, bytes) {
        assert!(began.elapsed() < PATIENCE, "{refusal}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn writes_are_refused_reads_go_on_and_room_ends_it() {
    if !is_root(ROOT) {
        return;
    }
    const BYTES: usize = 20_000;
    for sync in ["always", "everysec"] {
        let mut database = Database::start_after(BEFORE, &["--memory", "32MiB", "--sync", sync]);
        let mut connection = database.connection();
        let stored = fill(&mut connection, 0, BYTES);
        assert!(stored > 1_000, "only {stored} values");
        check(&mut connection, 0..stored, BYTES);
        // Space is freed: writes are accepted again by the same process.
        let directory = database.directory().display().to_string();
        let ballast = format!("/proc/{}/root{directory}/ballast", database.process().id());
        fs::remove_file(ballast).expect("the ballast");
        wait_for_room(&mut connection, stored, BYTES);
        for number in stored..stored + 500 {
            wait_for_room(&mut connection, number, BYTES);
        }
        check(&mut connection, 0..stored + 500, BYTES);
        database.terminate();
    }
}

#[test]
fn removing_makes_room_for_as_much() {
    if !is_root(ROOT) {
        return;
    }
    const BYTES: usize = 20_000;
    let database = Database::start_after(BEFORE, &["--memory", "32MiB", "--sync", "no"]);
    let mut connection = database.connection();
    let stored = fill(&mut connection, 0, BYTES);
    // Every other key, so that no log file is completely dead.
    remove(&mut connection, (0..stored).step_by(2));
    wait_for_room(&mut connection, stored, BYTES);
    let more = fill(&mut connection, stored, BYTES);
    assert!(more > stored / 4, "{more} came where {} had gone", stored / 2);
    check(&mut connection, (1..stored).step_by(2).chain(stored..stored + more), BYTES);
    // Existing keys are overwritten while a part of the space is free.
    remove(&mut connection, (1..stored).step_by(2));
    for round in 0..3 {
        for number in stored..stored + more {
            set(&mut connection, number, BYTES).unwrap_or_else(|error| panic!("{round}: {error}"));
        }
    }
    check(&mut connection, stored..stored + more, BYTES);
    let () = redis::cmd("FLUSHALL").query(&mut connection).expect("it makes room");
    wait_for_room(&mut connection, 0, BYTES);
}

#[test]
#[ignore = "a minute: make soak"]
fn everything_small_can_be_removed() {
    if !is_root(ROOT) {
        return;
    }
    let database = Database::start_after(BEFORE, &["--memory", "64MiB", "--sync", "no"]);
    let mut connection = database.connection();
    // MSET may stop in the middle; which keys it stored does not matter.
    let mut next = 0;
    let refusal = loop {
        let mut mset = redis::cmd("MSET");
        (next..next + 1_000).for_each(|number| {
            mset.arg(key(number)).arg(number);
        });
        next += 1_000;
        assert!(next < 5_000_000, "the disk is never full");
        if let Err(refusal) = mset.query::<()>(&mut connection) {
            break refusal.to_string();
        }
    };
    assert!(refusal.contains("disk full"), "{refusal}");
    let before: usize = redis::cmd("DBSIZE").query(&mut connection).expect("a number");
    let mut order: Vec<usize> = (0..next).collect();
    // Neighbours in the log are removed far apart.
    order.sort_by_key(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
    let began = Instant::now();
    for numbers in order.chunks(500) {
        let mut del = redis::cmd("DEL");
        numbers.iter().for_each(|&number| {
            del.arg(key(number));
        });
        while let Err(refusal) = del.query::<usize>(&mut connection) {
            assert!(began.elapsed() < PATIENCE * 4, "{refusal}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    let after: usize = redis::cmd("DBSIZE").query(&mut connection).expect("a number");
    eprintln!("{before} small entries removed in {:.1?}, {after} left", began.elapsed());
    assert_eq!(after, 0);
    wait_for_room(&mut connection, 0, 20_000);
}
