//! redis-server serves what `enroute db export` writes, and the database serves what `enroute db
//! import` reads of a file that redis-server saved: every value, every expiry, in every database.
//! What cannot be exported or imported as a whole is refused by name, and leaves nothing.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use db::rdb::Writer;
use redis::Connection;

use super::database_backup_is_the_state_at_its_point::{OPTIONS, done, refused, run};
use crate::support::database::Database;
use crate::support::enroute::program;
use crate::support::origins::Redis;

/// Later than any clock, in milliseconds since the Unix epoch.
const LATE_MS: i64 = 32_503_680_000_123;
const KEYS: usize = 3_000;

/// Value and expiry of each key, by the number of its database; -1 if it never expires.
type Entries = BTreeMap<(u8, Vec<u8>), (Vec<u8>, i64)>;

/// Values that Redis stores in different ways: numbers, and short, long and repetitive strings.
fn entries() -> Entries {
    let value = |number: usize| match number % 5 {
        0 => number.to_string().into_bytes(),
        1 => vec![number as u8; number * 7 % 5_000],
        2 => (0..number % 300).map(|at| (at * at + number) as u8).collect(),
        3 => (number as i64 - 40_000).to_string().into_bytes(),
        _ => vec![],
    };
    let entry = |number: usize| {
        let database = [0, 7, 15][number % 3];
        let expires_at = if number.is_multiple_of(4) { LATE_MS + number as i64 } else { -1 };
        ((database, format!("key {number}\r\n").into_bytes()), (value(number), expires_at))
    };
    let mut entries: Entries = (0..KEYS).map(entry).collect();
    entries.insert((0, vec![0xff; 20_000]), (vec![0; 3 << 20], -1));
    entries
}

fn select(connection: &mut Connection, database: u8) {
    redis::cmd("SELECT").arg(database).exec(connection).expect("selected");
}

fn store(connection: &mut Connection, entries: &Entries) {
    for ((database, key), (value, expires_at)) in entries {
        select(connection, *database);
        redis::cmd("SET").arg(key).arg(value).exec(connection).expect("stored");
        if *expires_at >= 0 {
            redis::cmd("PEXPIREAT").arg(key).arg(*expires_at).exec(connection).expect("set");
        }
    }
}

fn all(connection: &mut Connection) -> Entries {
    let mut entries = Entries::new();
    for database in 0..16 {
        select(connection, database);
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection).expect("a list");
        for key in keys {
            let value = redis::cmd("GET").arg(&key).query(connection).expect("a value");
            let at = redis::cmd("PEXPIRETIME").arg(&key).query(connection).expect("a time");
            entries.insert((database, key), (value, at));
        }
    }
    entries
}

/// A redis-server that loads `file`, which is in `directory`.
fn load(directory: &Path, file: &str) -> Option<Redis> {
    let directory = directory.to_str().expect("a plain path");
    Redis::start_with(&["--dir", directory, "--dbfilename", file])
}

#[test]
fn redis_server_serves_an_export_and_the_database_serves_an_import() {
    let entries = entries();
    let mut database = Database::start_with(&OPTIONS);
    store(&mut database.connection(), &entries);
    // It has expired at the time of the export.
    let mut connection = database.connection();
    redis::cmd("SET").arg("brief").arg("1").arg("PX").arg(1).exec(&mut connection).expect("stored");
    database.terminate();

    let dump = database.directory().join("dump.rdb");
    let said = done(&run(&["export"], &[&database.data(), &dump]));
    assert!(said.contains(&format!(": {} entries, ", entries.len())), "{said}");
    let metadata = fs::metadata(&dump).expect("it is there");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert!(said.contains(&format!("{} bytes", metadata.len())), "{said}");
    let Some(redis) = load(database.directory(), "dump.rdb") else { return };
    assert!(all(&mut redis.connection()) == entries, "redis-server has other entries");

    // Back: with what redis-server has changed, in its own format.
    let mut changed = entries;
    changed.remove(&(0, b"key 0\r\n".to_vec()));
    changed.insert((3, b"new".to_vec()), (b"value".to_vec(), -1));
    let mut connection = redis.connection();
    select(&mut connection, 0);
    redis::cmd("DEL").arg("key 0\r\n").exec(&mut connection).expect("removed");
    select(&mut connection, 3);
    redis::cmd("SET").arg("new").arg("value").exec(&mut connection).expect("stored");
    redis::cmd("SAVE").exec(&mut connection).expect("saved");
    fs::rename(database.data(), database.directory().join("old")).expect("moved");
    let said = done(&run(&["import"], &[&dump, &database.data()]));
    assert!(said.contains(&format!(": {} entries", changed.len())), "{said}");
    done(&run(&["check"], &[&database.data()]));
    database.bring_up();
    assert!(all(&mut database.connection()) == changed, "the database has other entries");
    // It is a database like any other: it knows how many keys each number has.
    let mut connection = database.connection();
    for number in 0..16 {
        select(&mut connection, number);
        let size: usize = redis::cmd("DBSIZE").query(&mut connection).expect("a number");
        assert_eq!(size, changed.keys().filter(|(of, _)| *of == number).count(), "{number}");
    }
    select(&mut connection, 0);
    redis::cmd("FLUSHDB").exec(&mut connection).expect("removed");
    changed.retain(|(of, _), _| *of != 0);
    assert!(all(&mut database.connection()) == changed, "keys of other databases are missing");
    store(&mut database.connection(), &Entries::from([((1, b"k".to_vec()), (vec![1], -1))]));
    database.terminate();
    done(&run(&["check"], &[&database.data()]));
}

#[test]
fn what_cannot_be_exported_is_refused_by_name() {
    let mut database = Database::start_with(&OPTIONS);
    let mut connection = database.connection();
    redis::cmd("SET").arg("kept").arg("value").exec(&mut connection).expect("stored");
    let (dump, backup) =
        (database.directory().join("dump.rdb"), database.directory().join("backup"));
    let export = |of: &Path| refused(&run(&["export"], &[of, &dump]));
    let serves = export(&database.data());
    let process = format!("is in use by process {} (enroute db", database.process().id());
    assert!(serves.contains(&process), "{serves}");
    done(&run(&["backup", &format!("--admin={}", database.admin())], &[&backup]));
    let said = export(&backup);
    assert!(said.contains("is a backup") && said.contains("enroute db restore"), "{said}");
    let nowhere = database.directory().join("nowhere");
    assert!(export(&nowhere).contains("does not exist"), "{}", export(&nowhere));
    assert!(!nowhere.exists());
    database.terminate();
    fs::write(&dump, "mine").expect("written");
    let said = export(&database.data());
    assert!(said.contains("name a file that does not exist"), "{said}");
    assert_eq!(fs::read(&dump).expect("it stays"), b"mine");
    fs::remove_file(&dump).expect("removed");
    // A value that cannot be read ends it: a snapshot has everything.
    let place = database.flip("kept", 6);
    let said = export(&database.data());
    let (shard, place) = place.split_once('/').expect("a shard and a file");
    let shard = shard.trim_start_matches("shard-").parse::<usize>().expect("a number");
    assert!(said.contains(&format!("shard {shard}: {place}")), "{said}");
    let left = fs::read_dir(database.directory()).expect("listed").flatten();
    let mut left = left.map(|entry| entry.file_name().display().to_string());
    assert!(!left.any(|name| name.starts_with("dump")), "an incomplete snapshot");
}

#[test]
fn what_cannot_be_imported_is_refused_by_name() {
    let database = Database::start_with(&OPTIONS);
    let Some(redis) = load(database.directory(), "dump.rdb") else { return };
    let (dump, target) =
        (database.directory().join("dump.rdb"), database.directory().join("target"));
    let import = || refused(&run(&["import"], &[&dump, &target]));
    assert!(import().contains("cannot open"), "{}", import());
    let mut connection = redis.connection();
    for number in 0..100 {
        redis::cmd("SET").arg(number).arg("value").exec(&mut connection).expect("stored");
    }
    redis::cmd("RPUSH").arg("mine").arg("1").exec(&mut connection).expect("stored");
    redis::cmd("SAVE").exec(&mut connection).expect("saved");
    let said = import();
    assert!(said.contains("key \"mine\" of database 0") && said.contains("is a list"), "{said}");
    redis::cmd("DEL").arg("mine").exec(&mut connection).expect("removed");
    redis::cmd("SAVE").exec(&mut connection).expect("saved");
    let whole = fs::read(&dump).expect("saved");
    for wrong in [whole[..whole.len() - 1].to_vec(), b"no snapshot".to_vec()] {
        fs::write(&dump, wrong).expect("written");
        let said = import();
        assert!(said.contains(&format!("cannot import {}", dump.display())), "{said}");
        assert_eq!(said.matches("offset").count(), 1, "the reason is told once: {said}");
    }
    fs::write(&dump, whole).expect("written");
    // Nothing is left of what was refused; what is there is kept.
    let said = refused(&run(&["import"], &[&dump, &database.data()]));
    assert!(said.contains("is in use by process"), "{said}");
    done(&run(&["import"], &[&dump, &target]));
    let said = import();
    assert!(said.contains("is not empty"), "{said}");
    done(&run(&["check"], &[&target]));
}

#[test]
fn an_import_that_was_killed_leaves_no_database() {
    let mut database = Database::start_with(&OPTIONS);
    database.terminate();
    let (dump, pipe) = (database.directory().join("dump.rdb"), database.directory().join("pipe"));
    let target = database.directory().join("target");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("it runs");
    assert!(made.success());
    let mut writer = Writer::new();
    for number in 0..1000_u64 {
        writer.entry(0, &number.to_le_bytes(), &[1; 1000], None);
    }
    let whole = writer.end();
    let import = Command::new(program()).args(["db", "import"]).args([&pipe, &target]).spawn();
    let mut import = import.expect("it runs");
    // It reads more than a pipe holds: some of it is stored.
    let mut end = OpenOptions::new().write(true).open(&pipe).expect("it reads");
    end.write_all(&whole[..whole.len() / 2]).expect("it reads");
    import.kill().expect("it is running");
    import.wait().expect("it has ended");
    fs::write(&dump, &whole).expect("written");
    let said = refused(&run(&["import"], &[&dump, &target]));
    assert!(said.contains("is not empty: it contains shard-00"), "{said}");
    let said = refused(&run(&["--listen", "127.0.0.1:0", "--dir"], &[&target]));
    assert!(said.contains("but no file `shards`"), "{said}");
    fs::remove_dir_all(&target).expect("removed");
    let said = done(&run(&["import"], &[&dump, &target]));
    assert!(said.contains(": 1000 entries"), "{said}");
}
