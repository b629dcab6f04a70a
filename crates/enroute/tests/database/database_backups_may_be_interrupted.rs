//! A backup that its disk or a stop ends is not there afterwards, and the database goes on. A
//! restore that was killed is not served, and is repeated into an empty directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::database_backup_is_the_state_at_its_point::{OPTIONS, done, refused, run};
use crate::support::database::Database;
use crate::support::enroute::program;
use crate::support::origins::is_root;
use crate::support::process::{Process, until};

const KEYS: u64 = 6000;
/// Number of attempts to interrupt something in the middle.
const ATTEMPTS_MAX: usize = 20;

/// Stores about 24 MB.
fn fill(database: &Database) {
    let mut pipeline = redis::pipe();
    for number in 0..KEYS {
        pipeline.cmd("SET").arg(number).arg(vec![number as u8; 4000]).ignore();
    }
    pipeline.exec(&mut database.connection()).expect("stored");
}

fn count(database: &Database) -> u64 {
    redis::cmd("DBSIZE").query(&mut database.connection()).expect("a count")
}

fn start(arguments: &[&str], paths: &[&Path]) -> Process {
    Process::start(Command::new(program()).arg("db").args(arguments).args(paths))
}

#[test]
fn a_stop_during_a_backup() {
    let mut database = Database::start_with(&OPTIONS);
    fill(&database);
    let (mut abandoned, target) = (0, database.directory().join("target"));
    for attempt in 0..ATTEMPTS_MAX {
        let backup = database.directory().join(format!("backup-{attempt}"));
        let client = start(&["backup", &format!("--admin={}", database.admin())], &[&backup]);
        until("the backup begins", || backup.exists() || client.has_ended());
        database.terminate();
        let ended = client.wait();
        if backup.exists() {
            done(&run(&["restore"], &[&backup, &target]));
            fs::remove_dir_all(&target).expect("removed");
        } else {
            assert!(!ended.status.success(), "{}", ended.stdout);
            abandoned += 1;
        }
        done(&run(&["check"], &[&database.data()]));
        database.bring_up();
        assert_eq!(count(&database), KEYS);
        if abandoned == 2 {
            return;
        }
    }
    panic!("no backup was stopped in the middle");
}

#[test]
fn a_kill_during_a_restore() {
    let mut database = Database::start_with(&OPTIONS);
    fill(&database);
    let backup = database.directory().join("backup");
    done(&run(&["backup", &format!("--admin={}", database.admin())], &[&backup]));
    database.bring_down();
    let data = database.data();
    for (attempt, shard) in [0, 1, 2, 3].into_iter().cycle().take(ATTEMPTS_MAX).enumerate() {
        fs::remove_dir_all(&data).expect("removed");
        let restore = start(&["restore"], &[&backup, &data]);
        let begun = data.join(format!("shard-{shard:03}"));
        until("the shard is restored", || begun.exists() || restore.has_ended());
        restore.kill();
        if data.join("shards").exists() {
            // It was too late.
            database.bring_up();
            assert_eq!(count(&database), KEYS);
            database.bring_down();
        } else {
            let said = database.refusal(&[]);
            assert!(said.contains("but no file `shards`"), "{said}");
            let said = refused(&run(&["restore"], &[&backup, &data]));
            assert!(said.contains("is not empty"), "{said}");
            if attempt >= 4 {
                break;
            }
        }
        assert!(attempt + 1 < ATTEMPTS_MAX, "no restore was killed in the middle");
    }
    fs::remove_dir_all(&data).expect("removed");
    done(&run(&["restore"], &[&backup, &data]));
    database.bring_up();
    assert_eq!(count(&database), KEYS);
}

#[test]
fn a_full_disk_during_a_backup() {
    if !is_root("a small file system of its own needs root") {
        return;
    }
    let before = "mkdir \"$1/small\"; mount -t tmpfs -o size=10m none \"$1/small\"";
    let database = Database::start_after(before, &OPTIONS);
    fill(&database);
    // The file system is only in the mount namespace of the database.
    let seen = Path::new("/proc").join(database.process().id().to_string()).join("root");
    let small = database.directory().join("small");
    let seen = seen.join(small.strip_prefix("/").expect("absolute"));
    assert!(seen.is_dir(), "{}", seen.display());
    let backup = small.join("backup");
    for _ in 0..2 {
        let said = refused(&run(&["backup", &format!("--admin={}", database.admin())], &[&backup]));
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(fs::read_dir(&seen).expect("read").count(), 0, "nothing is left of it");
    }
    fill(&database);
    assert_eq!(count(&database), KEYS);
    let backup = database.directory().join("elsewhere");
    done(&run(&["backup", &format!("--admin={}", database.admin())], &[&backup]));
    done(&run(&["check"], &[&backup]));
}
