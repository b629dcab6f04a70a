//! The resident memory of `enroute db` stays within `--memory`, however many entries there are, and
//! every entry is still found.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::database::Database;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MIB: u64 = 1 << 20;
/// Number of keys of one MSET.
const BATCH: u64 = 500;
/// Number of requests in flight.
const PIPELINE: u64 = 20;
/// Length of values of which few fill the memory, in bytes.
const LONG_VALUE: usize = 1 << 20;

/// Returns `field` of the process's status, in bytes: `VmHWM:`, `VmRSS:`.
fn status(database: &Database, field: &str) -> u64 {
    let path = format!("/proc/{}/status", database.process().id());
    let text = fs::read_to_string(path).expect("it is up");
    let line = text.lines().find(|line| line.starts_with(field)).expect("a field of Linux");
    let kilobytes = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}

/// Bytes of the index that have space on disk.
fn spilled(database: &Database) -> u64 {
    let shards = fs::read_dir(database.directory().join("data")).expect("its data").flatten();
    let bytes = |path| fs::metadata(path).map_or(0, |file| file.len());
    shards.map(|shard| bytes(shard.path().join("index.spill"))).sum()
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
    let began = Instant::now();
    for _ in 0..40 {
        let numbers: Vec<u64> = (0..50).map(|_| random.random_range(0..entries)).collect();
        let keys: Vec<String> = numbers.iter().map(|&number| key(number)).collect();
        let found: Vec<u64> = redis::cmd("MGET").arg(keys).query(&mut connection).expect("numbers");
        assert_eq!(found, numbers);
    }
    let lookup_us = began.elapsed().as_micros() / 2_000;
    // The peak, not the present value.
    let most = status(&database, "VmHWM:");
    eprintln!(
        "{entries} entries with {memory}: {:.1} MiB at most, {:.1} bytes of an index each spilled, \
         {lookup_us} µs a lookup",
        most as f64 / MIB as f64,
        spilled(&database) as f64 / entries as f64,
    );
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

#[test]
fn many_clients_that_wait_for_the_disk_at_once() {
    // Half of it is used by a debug build: 24 MiB of code and 4 MiB of other memory before anything
    // is stored, with 8 MiB for clients and 1.75 MiB of reserve. The rest has to be well above the
    // minimum of four shards, 10 MiB; otherwise there is nothing to evict when threads and
    // connections need more.
    const MEMORY_MIB: u64 = 56;
    const CLIENTS: u64 = 100;
    const ENTRIES: u64 = 250_000;
    // All clients together request all of these at once: more than the memory.
    const LONG: usize = 2 << 10;
    const LONG_ENTRIES: u64 = 30_000;
    let database = Database::start_with(&["--memory", "56MiB", "--sync", "no"]);
    let next = AtomicU64::new(0);
    // Nearly each of these keys is in a different page of the index.
    let write = || {
        let mut connection = database.connection();
        loop {
            let start = next.fetch_add(BATCH, Relaxed);
            if start >= ENTRIES {
                return;
            }
            let mut mset = redis::cmd("MSET");
            (start..start + BATCH).for_each(|number| {
                mset.arg(key(number)).arg(number);
            });
            let () = mset.query(&mut connection).expect("OK");
        }
    };
    thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(write))));
    let mut connection = database.connection();
    let count: u64 = redis::cmd("DBSIZE").query(&mut connection).expect("an answer");
    assert_eq!(count, ENTRIES);
    let written = status(&database, "VmHWM:");

    let name = |number: u64| format!("long{}", number % LONG_ENTRIES);
    for start in (0..LONG_ENTRIES).step_by(100) {
        let mut mset = redis::cmd("MSET");
        (start..start + 100).for_each(|number| {
            mset.arg(name(number)).arg(vec![b'x'; LONG]);
        });
        let () = mset.query(&mut connection).expect("OK");
    }
    // The reply is short, but all values have to be in memory for it.
    let look = |client: u64| {
        let mut exists = redis::cmd("EXISTS");
        (0..BATCH).for_each(|at| {
            exists.arg(name(client * BATCH + at));
        });
        let found: u64 = exists.query(&mut database.connection()).expect("a number");
        assert_eq!(found, BATCH);
    };
    let look = &look;
    thread::scope(|scope| {
        (0..CLIENTS).for_each(|client| drop(scope.spawn(move || look(client))));
    });
    let most = status(&database, "VmHWM:");
    let mib = |bytes| bytes as f64 / MIB as f64;
    eprintln!("{:.1} MiB at most after writing, {:.1} in the end", mib(written), mib(most));
    assert!(most <= MEMORY_MIB * MIB, "{most} bytes were resident of {MEMORY_MIB} MiB");
}

/// The server's reply, or an error if it closed the connection.
fn outcome<T: redis::FromRedisValue>(answer: redis::RedisResult<T>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

#[test]
fn whatever_clients_ask_for_at_once() {
    const MEMORY_MIB: u64 = 64;
    let database = Database::start_with(&["--memory", "64MiB", "--sync", "no"]);
    let mut connection = database.connection();
    for number in 0..120_u64 {
        let value = vec![number as u8; LONG_VALUE];
        let () = redis::cmd("SET").arg(key(number)).arg(value).query(&mut connection).expect("OK");
    }
    let mget = |count: u64| {
        let mut mget = redis::cmd("MGET");
        (0..count).for_each(|number| {
            mget.arg(key(number));
        });
        mget
    };
    let mark = |what: &str| eprintln!("{what}: {} KiB at most", status(&database, "VmHWM:") >> 10);
    mark("120 values of 1 MiB");
    let found: Vec<Vec<u8>> = mget(3).query(&mut connection).expect("three values");
    assert!(found.iter().zip(0..).all(|(value, number)| *value == vec![number; LONG_VALUE]));
    let refused = |connection: &mut redis::Connection, command: &redis::Cmd, why: &str| {
        let refusal = outcome(command.query::<redis::Value>(connection)).expect_err(why);
        assert!(refusal.contains(why), "{refusal}");
    };
    // More than one command may use: refused, whether it is on disk or in memory.
    refused(&mut connection, &mget(120), "maxmemory-clients");
    mark("MGET");
    refused(&mut connection, redis::cmd("LCS").arg(key(1)).arg(key(2)), "Insufficient memory");
    refused(&mut connection, redis::cmd("SETRANGE").arg("k").arg(400_000_000).arg("x"), "maximum");
    refused(
        &mut connection,
        redis::cmd("SETBIT").arg("k").arg(4_000_000_000_u32).arg(1),
        "maximum",
    );
    mark("LCS and the like");
    let mut transaction = redis::pipe();
    transaction.atomic();
    (0..60).for_each(|number| {
        transaction.cmd("GET").arg(key(number));
    });
    outcome(transaction.query::<redis::Value>(&mut connection)).expect_err("60 MiB at once");

    mark("a transaction");
    // Together more than the clients' limit: those with the most buffered data are closed, not the
    // others.
    let mut idle = database.connection();
    let _greedy = greedy(&database);
    mark("requests half said, answers not taken");
    let (queued, closed) = queue_until_closed(&database);
    let () = redis::cmd("PING").query(&mut idle).expect("the others are served");
    let most = status(&database, "VmHWM:");
    eprintln!("{:.1} MiB at most; MULTI ended after {queued}: {closed}", most as f64 / MIB as f64);
    assert!(most <= MEMORY_MIB * MIB, "{most} bytes were resident of {MEMORY_MIB} MiB");
}

/// Clients that send half of long requests, and others that do not read replies.
fn greedy(database: &Database) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for number in 0..40_u64 {
        let connect = || TcpStream::connect(database.address()).expect("it listens");
        let mut stream = connect();
        let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
        let begun = format!("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n${}\r\n", 4 << 20);
        let _ = stream.write_all(begun.as_bytes());
        let _ = stream.write_all(&vec![b'x'; 3 << 20]);
        streams.push(stream);
        let mut stream = connect();
        let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
        let get = format!("GET {}\r\n", key(number));
        let _ = stream.write_all(get.repeat(100).as_bytes());
        streams.push(stream);
    }
    streams
}

/// Queues values in MULTI until the connection is closed; returns their number, and the client's
/// error.
fn queue_until_closed(database: &Database) -> (usize, String) {
    let mut queueing = database.connection();
    for queued in 0..100 {
        let mut command = redis::cmd(if queued == 0 { "MULTI" } else { "SET" });
        if queued > 0 {
            command.arg("queued").arg(vec![b'q'; LONG_VALUE]);
        }
        if let Err(closed) = outcome(command.query::<redis::Value>(&mut queueing)) {
            return (queued, closed);
        }
    }
    panic!("100 MiB are queued by MULTI");
}
