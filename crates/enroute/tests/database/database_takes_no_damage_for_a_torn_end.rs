//! A bit flip in the latest writes: after a clean stop, and after a kill if later records prove
//! that the record was durable, the key is an error with its position, never absent, and nothing
//! else is lost.

use std::collections::BTreeMap;

use crate::support::database::Database;
use redis::Connection;

const KEYS: u64 = 988;

fn key(number: u64) -> String {
    format!("key:{number:04}")
}

fn value(number: u64) -> Vec<u8> {
    (0..100).map(|at| (number * 31 + at * 7 + 1) as u8 | 1).collect()
}

fn set(connection: &mut Connection, keys: impl Iterator<Item = u64>) {
    let mut pipeline = redis::pipe();
    keys.for_each(|number| {
        pipeline.cmd("SET").arg(key(number)).arg(value(number)).ignore();
    });
    pipeline.exec(connection).expect("they are stored");
}

fn filled() -> Database {
    let database = Database::start_with(&["--memory", "32MiB", "--sync", "always"]);
    set(&mut database.connection(), 0..KEYS);
    database
}

/// Checks that the keys in `damaged` return errors with their positions, and all other keys their
/// values.
fn check(database: &Database, damaged: &BTreeMap<u64, String>) {
    let mut connection = database.connection();
    for number in 0..KEYS {
        let found: redis::RedisResult<Option<Vec<u8>>> =
            redis::cmd("GET").arg(key(number)).query(&mut connection);
        match (found, damaged.get(&number)) {
            (Ok(found), None) => assert!(found == Some(value(number)), "{number}: {found:?}"),
            (Ok(found), Some(place)) => panic!("{number}, {place}: {found:?}"),
            (Err(error), place) => {
                let error = error.to_string();
                assert!(place.is_some_and(|place| error.contains(place)), "{number}: {error}");
            }
        }
    }
    assert!(database.info("damages") >= damaged.len() as u64);
    for place in damaged.values() {
        assert!(database.process().stderr_line(place).is_some(), "not in the log: {place}");
    }
    let said = database.process().stderr();
    assert!(!said.contains("a crash tore"), "{said}");
}

/// Flips a bit of each of these keys, in its name or in its value.
fn flip(database: &Database, keys: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
    let places = [0, 4, 60].into_iter().cycle();
    keys.zip(places).map(|(number, behind)| (number, database.flip(&key(number), behind))).collect()
}

#[test]
fn after_a_clean_stop() {
    let mut database = filled();
    database.terminate();
    // Including the last key.
    let damaged = flip(&database, (6..KEYS).step_by(109));
    assert!(damaged.len() > 8 && damaged.contains_key(&(KEYS - 1)));
    database.bring_up();
    check(&database, &damaged);
    // The same after another restart.
    database.terminate();
    database.bring_up();
    check(&database, &damaged);
}

#[test]
fn after_a_kill() {
    let mut database = filled();
    database.bring_down();
    let damaged = flip(&database, (6..KEYS).step_by(109));
    database.bring_up();
    check(&database, &damaged);
    database.terminate();
    database.bring_up();
    check(&database, &damaged);
}
