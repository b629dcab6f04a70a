//! A disk that is full: the real process refuses writes and says why, goes on with reads, and
//! takes writes again when there is room.

mod support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use support::database::Database;
use support::origins::absent;
use support::process::PATIENCE;

fn set(connection: &mut Connection, key: &str, value: &[u8]) -> Result<(), String> {
    let answer = redis::cmd("SET").arg(key).arg(value).query::<()>(connection);
    answer.map_err(|error| error.to_string())
}

fn value(number: usize) -> Vec<u8> {
    (0..20_000).map(|at| (at * 31 + number * 7) as u8).collect()
}

#[test]
#[ignore = "open: close to full, writes wait for a compaction that wins nothing and come through a few \
            a second before they are refused; make soak"]
fn writes_are_refused_reads_go_on_and_room_ends_it() {
    if !rustix::process::geteuid().is_root() {
        return absent("a small file system of its own needs root").unwrap_or(());
    }
    let before =
        "mount -t tmpfs -o size=320m none \"$1\"; head -c 100000000 /dev/zero > \"$1/ballast\"";
    for sync in ["always", "everysec"] {
        let database = Database::start_after(before, &["--memory", "24MiB", "--sync", sync]);
        let mut connection = database.connection();
        let (mut stored, began) = (0, Instant::now());
        let refusal = loop {
            assert!(stored < 20_000, "the disk is never full");
            assert!(began.elapsed() < PATIENCE, "{stored} values, and the disk is not full yet");
            match set(&mut connection, &format!("key:{stored}"), &value(stored)) {
                Ok(()) => stored += 1,
                Err(refusal) => break refusal,
            }
        };
        assert!(refusal.contains("MISCONF") && refusal.contains("full"), "{refusal}");
        assert!(stored > 1_000, "only {stored} values before {refusal}");
        let check = |connection: &mut Connection, count: usize| {
            for number in 0..count {
                let key = format!("key:{number}");
                let found: Option<Vec<u8>> =
                    redis::cmd("GET").arg(&key).query(connection).expect(&key);
                assert!(found == Some(value(number)), "{key} under {sync}");
            }
        };
        check(&mut connection, stored);
        // Room comes back: writes are taken again, in the same process.
        let directory = database.directory().display();
        fs::remove_file(format!("/proc/{}/root{directory}/ballast", database.process().id()))
            .expect("the ballast");
        let began = Instant::now();
        while let Err(refusal) = set(&mut connection, &format!("key:{stored}"), &value(stored)) {
            assert!(began.elapsed() < PATIENCE, "{refusal}");
            thread::sleep(Duration::from_millis(20));
        }
        for number in stored..stored + 500 {
            set(&mut connection, &format!("key:{number}"), &value(number)).expect("there is room");
        }
        check(&mut connection, stored + 500);
        eprintln!("{sync}: {stored} values, then {refusal}");
    }
}
