//! The programs of libmemcached, a library of C, find the same in the cache as in memcached, and
//! its load generators what they have set.

use std::{
    net::SocketAddr,
    process::{Command, Output},
};

use crate::support::{
    directory::on_path,
    enroute::Cache,
    origins::{Memcached, absent},
    process::until,
};

/// Operations of one load; the values of `memcslap` and `memcaslap` have 1 KiB.
const OPERATIONS: &str = "20000";

#[test]
fn libmemcached_finds_the_abilities_of_memcached() {
    let Some((origin, cache)) = started() else { return };
    let abilities = |at: SocketAddr| {
        let (host, port) = (at.ip().to_string(), at.port().to_string());
        let output = run("memccapable", &["-h", &host, "-p", &port, "-a", "-t", "60"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let direct = abilities(origin.address());
    assert!(direct.matches("[pass]").count() > 20 && !direct.contains("[FAIL]"), "{direct}");
    assert_eq!(abilities(cache.address()), direct);
}

#[test]
fn loads_of_libmemcached_find_what_they_have_set() {
    let Some((_origin, cache)) = started() else { return };
    let server = cache.address().to_string();
    let load = ["-s", &server, "-T", "1", "-c", "16", "-x", OPERATIONS, "-v", "0.1"];
    let told = run("memcaslap", &load);
    let told = String::from_utf8_lossy(&told.stdout);
    let count = |name: &str| -> usize {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("{told}"))
    };
    assert!(count("cmd_get:") > 10_000 && count("cmd_set:") > 1_000, "{told}");
    assert_eq!((count("get_misses:"), count("verify_misses:")), (0, 0), "{told}");
    assert_eq!(count("verify_failed:"), 0, "{told}");
    for test in ["get", "mget", "set"] {
        let servers = format!("--servers={server}");
        let options = ["--concurrency=4", "--execute-number=500", &format!("--test={test}")];
        run("memcslap", &[&[servers.as_str()][..], &options].concat());
    }
    until("hits", || cache.hits() > 10_000.0);
}

/// A memcached and a cache before it; `None` if something is not installed.
fn started() -> Option<(Memcached, Cache)> {
    if on_path("memcslap").is_none() {
        return absent("memcslap is not on PATH");
    }
    let origin = Memcached::start()?;
    let cache = Cache::start("memcached", origin.address(), "");
    Some((origin, cache))
}

fn run(program: &str, arguments: &[&str]) -> Output {
    // They end by themselves, or the limit ends them.
    let output = Command::new("timeout").arg("300").arg(program).args(arguments).output();
    let output = output.expect("timeout is a program of every system");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {}: {errors}", output.status);
    output
}
