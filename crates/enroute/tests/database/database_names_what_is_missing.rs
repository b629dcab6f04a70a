//! Files of a stopped database are missing, swapped or outdated: it does not start, names the file,
//! and starts only if the data loss is accepted.

use std::fs;
use std::path::PathBuf;

use crate::support::database::Database;

const KEYS: u64 = 3_000;
const ACCEPT: &str = "--accept-data-loss";

fn filled() -> Database {
    let mut database = Database::start_with(&["--memory", "32MiB"]);
    let mut connection = database.connection();
    let mut pipeline = redis::pipe();
    for number in 0..KEYS {
        pipeline.cmd("SET").arg(number).arg(vec![b'x'; 1_000]).ignore();
    }
    pipeline.exec(&mut connection).expect("they are stored");
    drop(connection);
    database.terminate();
    database
}

fn count(database: &Database) -> u64 {
    redis::cmd("DBSIZE").query(&mut database.connection()).expect("a count")
}

/// The first segment of a shard.
fn segment(database: &Database, shard: &str) -> PathBuf {
    let files = fs::read_dir(database.data().join(shard)).expect("a shard").flatten();
    let segments = files.map(|file| file.path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    segments.filter(is_segment).min().expect("a segment")
}

fn assert_refused(database: &Database, expected: &[&str]) {
    let said = database.refusal(&[]);
    for part in expected {
        assert!(said.contains(part), "expected {part:?}: {said}");
    }
}

#[test]
fn a_shard() {
    let mut database = filled();
    let (shard, aside) = (database.data().join("shard-002"), database.directory().join("aside"));
    fs::rename(&shard, &aside).expect("moved");
    for _ in 0..2 {
        assert_refused(&database, &["shard-002", "restore what is missing", ACCEPT]);
    }
    fs::rename(&aside, &shard).expect("moved back");
    database.bring_up();
    assert_eq!(count(&database), KEYS);
    database.terminate();
    fs::remove_dir_all(&shard).expect("removed");
    database.bring_up_with(&[ACCEPT]);
    let left = count(&database);
    assert!((KEYS / 2..KEYS).contains(&left), "{left}");
    assert!(database.process().stderr_line("shard-002 is missing").is_some());
    // The loss was accepted once; afterwards nothing is missing.
    database.terminate();
    database.bring_up();
    assert_eq!(count(&database), left);
}

#[test]
fn what_was_in_a_shard() {
    let database = filled();
    for entry in fs::read_dir(database.data().join("shard-001")).expect("a shard").flatten() {
        fs::remove_file(entry.path()).expect("removed");
    }
    assert_refused(&database, &["shard-001", "superblock is missing", ACCEPT]);
}

#[test]
fn a_segment() {
    let mut database = filled();
    let lost = segment(&database, "shard-003");
    let name = lost.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    fs::remove_file(&lost).expect("removed");
    for _ in 0..2 {
        assert_refused(&database, &["shard-003", &format!("{name} is missing"), ACCEPT]);
    }
    database.bring_up_with(&[ACCEPT]);
    assert!(count(&database) < KEYS);
    assert!(database.process().stderr_line(&format!("{name} is missing")).is_some());
    database.bring_down();
    database.bring_up();
}

#[test]
fn after_a_kill_too() {
    let mut database = filled();
    database.bring_up();
    redis::cmd("SET").arg("a").arg("b").exec(&mut database.connection()).expect("stored");
    database.bring_down();
    let lost = segment(&database, "shard-000");
    fs::remove_file(&lost).expect("removed");
    assert_refused(&database, &["shard-000", "is missing", ACCEPT]);
}

#[test]
fn two_shards_in_each_others_places() {
    let database = filled();
    let [one, two, aside] =
        ["shard-001", "shard-002", "aside"].map(|name| database.data().join(name));
    for (from, to) in [(&one, &aside), (&two, &one), (&aside, &two)] {
        fs::rename(from, to).expect("moved");
    }
    assert_refused(&database, &["shard-00", "it is another shard's directory", ACCEPT]);
}

#[test]
fn lists_that_are_gone_or_damaged() {
    let database = filled();
    let shard = database.data().join("shard-001");
    for (copy, name) in ["manifest.0", "manifest.1"].iter().enumerate() {
        let path = shard.join(name);
        let mut bytes = fs::read(&path).expect("a copy");
        bytes[20] ^= 0x40;
        fs::write(&path, bytes).expect("written");
        // One copy is enough.
        if copy == 0 {
            continue;
        }
        assert_refused(&database, &["shard-001", "manifest.", "damaged", "wrong checksum"]);
        for name in ["manifest.0", "manifest.1"] {
            fs::remove_file(shard.join(name)).expect("removed");
        }
        assert_refused(&database, &["shard-001", "manifest.0 is missing", ACCEPT]);
    }
    let listing = database.data().join("shards");
    let listed = fs::read_to_string(&listing).expect("a list");
    fs::write(&listing, listed.replacen("shard-003", "shard-004", 1)).expect("written");
    assert_refused(&database, &["shards", "damaged", "restore the file from a backup"]);
    fs::write(&listing, listed.replacen("enroute-db 2", "enroute-db 9", 1)).expect("written");
    assert_refused(&database, &["version \"9\", expected 2", "start the version of enroute"]);
}

/// The format of the previous version: no manifest, superblocks of format 2, and a file with only
/// the number of shards.
fn make_former(database: &Database) {
    for shard in 0..4 {
        let shard = database.data().join(format!("shard-{shard:03}"));
        for name in ["manifest.0", "manifest.1"] {
            fs::remove_file(shard.join(name)).expect("removed");
        }
        let path = shard.join("superblock");
        let mut bytes = fs::read(&path).expect("a superblock");
        bytes[7] = b'2';
        let checksum = crc32c::crc32c(&bytes[..32]).to_le_bytes();
        bytes[32..36].copy_from_slice(&checksum);
        fs::write(&path, bytes).expect("written");
    }
    fs::write(database.data().join("shards"), "4\n").expect("written");
    fs::remove_file(database.data().join("LOCK")).expect("removed");
}

#[test]
fn a_directory_of_the_version_before_is_taken_over() {
    let mut database = filled();
    make_former(&database);
    database.bring_up();
    assert_eq!(count(&database), KEYS);
    database.bring_down();
    database.bring_up();
    assert_eq!(count(&database), KEYS);
    database.terminate();
    fs::remove_file(segment(&database, "shard-003")).expect("removed");
    assert_refused(&database, &["shard-003", "is missing", ACCEPT]);
    // A missing shard is also noticed in a directory of that version.
    let database = filled();
    make_former(&database);
    fs::remove_dir_all(database.data().join("shard-002")).expect("removed");
    assert_refused(&database, &["shard-002", ACCEPT]);
}
