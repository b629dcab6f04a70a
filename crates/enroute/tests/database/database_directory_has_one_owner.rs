//! One process at a time serves a directory: a second one fails with an error that names the holder
//! and the remedy.

use std::process::Command;

use crate::support::database::Database;
use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::program;
use crate::support::process::Process;

const KEYS: u64 = 500;

fn set(database: &Database, keys: std::ops::Range<u64>) {
    let mut connection = database.connection();
    for number in keys {
        redis::cmd("SET").arg(number).arg(number).exec(&mut connection).expect("it is stored");
    }
}

fn count(database: &Database) -> u64 {
    redis::cmd("DBSIZE").query(&mut database.connection()).expect("a count")
}

#[test]
fn a_second_start_is_refused_and_nothing_is_lost() {
    let mut database = Database::start_with(&["--sync", "always", "--memory", "32MiB"]);
    set(&database, 0..KEYS);
    let said = database.refusal(&[]);
    let process = format!("process {} (enroute db --dir ", database.process().id());
    assert!(said.contains("is in use by") && said.contains(&process), "{said}");
    assert!(said.contains("use another --dir"), "{said}");
    set(&database, KEYS..2 * KEYS);
    // It holds the directory until it ends, in whatever way.
    database.bring_down();
    database.bring_up();
    assert_eq!(count(&database), 2 * KEYS);
    database.terminate();
    database.bring_up();
    assert_eq!(count(&database), 2 * KEYS);
}

#[test]
fn of_many_that_make_it_at_once_one_does() {
    let directory = TemporaryDirectory::create();
    let data = directory.path().join("data");
    let start = || {
        let mut command = Command::new(program());
        command.arg("db").arg("--dir").arg(&data);
        Process::start(command.args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]))
    };
    let processes: Vec<Process> = (0..6).map(|_| start()).collect();
    let (serving, refused): (Vec<_>, Vec<_>) = processes
        .into_iter()
        .partition(|process| process.stderr_line(" stores its data in ").is_some());
    let said: Vec<String> = refused.into_iter().map(|process| process.wait().stderr).collect();
    assert_eq!(serving.len(), 1, "{said:?}");
    assert!(said.iter().all(|said| said.contains("is in use by")), "{said:?}");
    let ended = serving.into_iter().next().expect("one").terminate();
    assert!(ended.status.success(), "{}", ended.stderr);
    let again = start();
    assert!(again.stderr_line(" stores its data in ").is_some(), "{}", again.stderr());
}
