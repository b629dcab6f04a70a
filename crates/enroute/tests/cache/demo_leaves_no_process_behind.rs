//! When a demonstration is killed, the processes that it started end too.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    enroute::program,
    process::{PATIENCE, Process},
};

/// The processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    text.expect("it runs").split_whitespace().map(|id| id.parse().expect("a number")).collect()
}

/// Whether a process is running; a zombie is not.
fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

#[test]
fn demo_leaves_no_process_behind() {
    let demo =
        Process::start(Command::new(program()).args(["demo", "--json", "--seconds", "3600"]));
    demo.stderr_line("capacity 100").expect("it shows its progress");
    let caches = children(demo.id());
    assert_eq!(caches.len(), 5, "one cache for each row");
    assert!(caches.iter().all(|cache| runs(*cache)));
    demo.signal("KILL");
    drop(demo);
    let killed = Instant::now();
    while caches.iter().any(|cache| runs(*cache)) {
        assert!(killed.elapsed() < PATIENCE, "caches outlive their demonstration: {caches:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
