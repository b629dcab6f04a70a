//! A database keeps serving its data directory after the directory was renamed.

use std::fs;

use crate::support::database::Database;

const KEYS: u64 = 3_000;

#[test]
fn while_it_serves() {
    // Enough values for new segments, and more than fit into memory.
    let mut database = Database::start_with(&["--sync", "always", "--memory", "32MiB"]);
    let value = |number: u64| vec![number as u8; 12_000];
    let fill = |database: &Database, keys: std::ops::Range<u64>| {
        let mut connection = database.connection();
        for some in keys.collect::<Vec<_>>().chunks(100) {
            let mut pipeline = redis::pipe();
            some.iter().for_each(|&number| {
                pipeline.cmd("SET").arg(number).arg(value(number)).ignore();
            });
            pipeline.exec(&mut connection).expect("they are stored");
        }
    };
    fill(&database, 0..KEYS / 3);
    let (data, elsewhere) = (database.data(), database.directory().join("elsewhere"));
    fs::rename(&data, &elsewhere).expect("renamed");
    fill(&database, KEYS / 3..KEYS);
    let check = |database: &Database| {
        let mut connection = database.connection();
        for number in 0..KEYS {
            let found: Option<Vec<u8>> =
                redis::cmd("GET").arg(number).query(&mut connection).expect("an answer");
            assert!(found == Some(value(number)), "{number}");
        }
    };
    check(&database);
    assert!(!data.exists(), "the old path was created again");
    database.terminate();
    fs::rename(&elsewhere, &data).expect("renamed");
    database.bring_up();
    check(&database);
}
