//! Bits are flipped in the files of the real process, and files are truncated: damaged data is an
//! error that names the position, in the reply and in the log; all other data is served unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::support::database::Database;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use redis::Connection;

/// Four times as many keys as fit into memory.
const KEYS: u64 = 16_000;
const VALUE_BYTES: usize = 4_000;
/// Maximum length of a record: head, key, value.
const RECORD_BYTES_MAX: u64 = VALUE_BYTES as u64 + 128;
/// Distance between two flips, so that no record has two.
const FLIPS_APART: u64 = 64 << 10;

fn key(number: u64) -> String {
    format!("key:{number}")
}

fn value(number: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    Pcg64Mcg::seed_from_u64(number).fill(&mut value[..]);
    value
}

fn set(connection: &mut Connection, number: u64) {
    let set = redis::cmd("SET").arg(key(number)).arg(value(number)).clone();
    set.exec(connection).expect("it is stored");
}

fn filled() -> Database {
    let database = Database::start_with(&["--memory", "32MiB", "--sync", "always"]);
    let mut connection = database.connection();
    let numbers: Vec<u64> = (0..KEYS).collect();
    for some in numbers.chunks(500) {
        let mut pipeline = redis::pipe();
        for &number in some {
            pipeline.cmd("SET").arg(key(number)).arg(value(number)).ignore();
        }
        pipeline.exec(&mut connection).expect("they are stored");
    }
    database
}

/// Offsets by file name, in the form that errors use.
type Places = BTreeMap<String, BTreeSet<u64>>;

/// The segments of all shards by name.
fn segments(database: &Database) -> BTreeMap<String, PathBuf> {
    let data = database.directory().join("data");
    let mut found = BTreeMap::new();
    for shard in 0..4 {
        let shard = format!("shard-{shard:03}");
        for entry in fs::read_dir(data.join(&shard)).expect("a shard").flatten() {
            let name = entry.file_name().into_string().expect("a plain name");
            if name.starts_with("segment-") {
                found.insert(format!("{shard}/{name}"), entry.path());
            }
        }
    }
    found
}

/// Flips bits in every segment.
fn flip(database: &Database, seed: u64) -> Places {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut flipped = Places::new();
    for (name, path) in segments(database) {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("a segment");
        let length = file.metadata().expect("its length").len();
        for begin in (0..length).step_by(FLIPS_APART as usize) {
            let at = begin + random.random_range(0..FLIPS_APART - RECORD_BYTES_MAX);
            let mut byte = [0];
            if file.read_exact_at(&mut byte, at).is_err() {
                continue;
            }
            byte[0] ^= 1 << random.random_range(0..8);
            file.write_all_at(&byte, at).expect("a writable file");
            flipped.entry(name.clone()).or_default().insert(at);
        }
    }
    flipped
}

/// The file and the offset in an error: `shard-000/segment-000000000001.log … at offset 4096: …`.
fn place(error: &str) -> (String, u64) {
    let from = error.find("shard-").unwrap_or_else(|| panic!("no file: {error}"));
    let name = error[from..].split(' ').next().expect("a name").to_owned();
    let offset = error[from..].split(" at offset ").nth(1).and_then(|rest| rest.split(':').next());
    let offset = offset.and_then(|offset| offset.trim().parse().ok());
    (name, offset.unwrap_or_else(|| panic!("no offset: {error}")))
}

/// The results of reading every key.
#[derive(Default)]
struct Read {
    errors: BTreeMap<u64, String>,
    absent: u64,
}

/// Reads every key; a value that was never written fails the test.
fn read_all(database: &Database) -> Read {
    let mut connection = database.connection();
    let mut read = Read::default();
    for number in 0..KEYS {
        let answer = redis::cmd("GET").arg(key(number)).query::<Option<Vec<u8>>>(&mut connection);
        match answer {
            Ok(Some(found)) => assert!(found == value(number), "{number}: damage was served"),
            Ok(None) => read.absent += 1,
            Err(error) => drop(read.errors.insert(number, error.to_string())),
        }
    }
    read
}

/// Checks that every error names a record with a flipped bit.
fn assert_places(read: &Read, flipped: &Places) {
    for error in read.errors.values() {
        assert!(error.contains("is damaged at offset"), "{error}");
        let (name, offset) = place(error);
        let flips = flipped.get(&name).unwrap_or_else(|| panic!("nothing was flipped: {error}"));
        let hit = flips.range(offset..offset + RECORD_BYTES_MAX).next();
        assert!(hit.is_some(), "no flip there: {error}");
    }
}

#[test]
fn under_a_running_database() {
    let database = filled();
    let flipped = flip(&database, 1);
    let read = read_all(&database);
    let flips: usize = flipped.values().map(BTreeSet::len).sum();
    eprintln!("{flips} flips, {} of {KEYS} reads refused", read.errors.len());
    assert!(read.errors.len() > 200, "damage was hardly met");
    assert_eq!(read.absent, 0, "an unreadable key counts as absent");
    assert_places(&read, &flipped);
    // The log reports the damage without a request.
    let (_, error) = read.errors.first_key_value().expect("there are many");
    let (name, offset) = place(error);
    let line = format!("{name} is damaged at offset {offset}");
    assert!(database.process().stderr_line(&line).is_some(), "not in the log: {line}");
    // A value that is written again is intact; a command that needs the old value is refused.
    let mut connection = database.connection();
    for (at, &number) in read.errors.keys().take(20).enumerate() {
        let name = key(number);
        let append = redis::cmd("APPEND").arg(&name).arg("x").clone();
        append.exec(&mut connection).expect_err("it would be served in part");
        let keep = redis::cmd("SET").arg(&name).arg("x").arg("NX").clone();
        keep.exec(&mut connection).expect_err("it would be overwritten");
        let expected = if at % 2 == 0 {
            set(&mut connection, number);
            Some(value(number))
        } else {
            let deleted: u64 =
                redis::cmd("DEL").arg(&name).query(&mut connection).expect("a count");
            assert_eq!(deleted, 1);
            None
        };
        let found: Option<Vec<u8>> =
            redis::cmd("GET").arg(&name).query(&mut connection).expect("it is whole again");
        assert_eq!(found, expected);
    }
}

#[test]
fn walks_name_every_key_that_can_be_read() {
    let mut database = Database::start_with(&["--memory", "32MiB", "--sync", "always"]);
    let name = |number: u64| format!("key:{number:04}:");
    let mut pipeline = redis::pipe();
    for number in 0..2_000 {
        pipeline.cmd("SET").arg(name(number)).arg(value(number)).ignore();
    }
    pipeline.exec(&mut database.connection()).expect("they are stored");
    // Memory is empty after a restart.
    database.terminate();
    database.bring_up();
    let in_name: BTreeSet<String> = (0..2_000).step_by(100).map(name).collect();
    let in_value: BTreeSet<String> = (50..2_000).step_by(100).map(name).collect();
    let mut places: Vec<String> = in_name.iter().map(|name| database.flip(name, 7)).collect();
    places.extend(in_value.iter().map(|name| database.flip(name, 2_000)));
    let expected: BTreeSet<_> = (0..2_000).map(name).filter(|key| !in_name.contains(key)).collect();
    let mut connection = database.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert_eq!(keys.len(), expected.len(), "none twice");
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(database.info("scan_passed_over"), in_name.len() as u64);
    let (mut scanned, mut cursor) = (BTreeSet::new(), 0_u64);
    loop {
        let (next, keys): (u64, Vec<String>) =
            redis::cmd("SCAN").arg(cursor).query(&mut connection).expect("a page");
        scanned.extend(keys);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, expected);
    assert_eq!(database.info("scan_passed_over"), 2 * in_name.len() as u64);
    for place in places {
        assert!(database.process().stderr_line(&place).is_some(), "not in the log: {place}");
    }
    for key in &in_value {
        let read = redis::cmd("GET").arg(key).query::<Vec<u8>>(&mut connection);
        read.expect_err("it is named, and not served");
    }
    for _ in 0..500 {
        let _: Option<String> =
            redis::cmd("RANDOMKEY").query(&mut connection).expect("one of the others");
    }
}

#[test]
fn of_a_stopped_database() {
    let mut database = filled();
    database.terminate();
    let flipped = flip(&database, 2);
    database.bring_up();
    let read = read_all(&database);
    let said = database.process().stderr();
    let found_at_start = said.matches("is damaged at offset").count() as u64;
    let (refused, absent) = (read.errors.len(), read.absent);
    eprintln!("{refused} of {KEYS} reads refused, {absent} absent, {found_at_start} places logged");
    assert!(refused > 200, "damage was hardly met");
    assert_places(&read, &flipped);
    // If the key's name is lost with its record, the key cannot be refused: then the log reports
    // it.
    assert!(absent <= found_at_start, "{said}");
}

#[test]
fn a_file_cut_short_is_an_error_not_an_absence() {
    let database = filled();
    // The first segments are full.
    let (name, path) = segments(&database).into_iter().next().expect("a segment");
    let file = File::options().write(true).open(path).expect("a segment");
    let half = file.metadata().expect("its length").len() / 2;
    file.set_len(half).expect("it is cut");
    let read = read_all(&database);
    eprintln!("{} of {KEYS} reads refused", read.errors.len());
    assert!(read.errors.len() > 20 && read.absent == 0, "{} absent", read.absent);
    for error in read.errors.values() {
        let (place, offset) = place(error);
        assert!(place == name && offset + RECORD_BYTES_MAX > half, "{error}");
    }
}
