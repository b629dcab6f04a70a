//! `enroute db` with common clients: redis-py, redis-cli, redis-benchmark.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::support::database::{Certificates, Database};
use crate::support::directory::{on_path, python};
use crate::support::origins::{Redis, absent};

/// Returns the output of redis-py connected to `address`, with TLS if `tls` has its files.
fn converse(address: SocketAddr, tls: &[String]) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/database_conformance.py");
    let output = Command::new(python()?).args([script, &address.to_string()]).args(tls).output();
    let output = output.expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{address}: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn redis_py_is_told_what_redis_server_tells() {
    let Some(redis) = Redis::start() else { return };
    let Some(theirs) = converse(redis.address(), &[]) else { return };
    assert!(theirs.lines().count() > 200, "{theirs}");
    let same = |ours: &str| {
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            assert_eq!(ours, theirs, "enroute db, and redis-server");
        }
        assert_eq!(ours.lines().count(), theirs.lines().count());
    };
    same(&converse(Database::start().address(), &[]).expect("it ran before"));
    // With certificates on both sides.
    let Some(certificates) = Certificates::create() else { return };
    let files = certificates.paths();
    let [authority, certificate, key] = &files;
    let options = ["--tls-ca", authority, "--tls-cert", certificate, "--tls-key", key];
    let database = Database::start_with(&options);
    same(&converse(database.address(), &files).expect("it ran before"));
}

#[test]
fn redis_cli_works_on_it() {
    if on_path("redis-cli").is_none() {
        return absent("redis-cli is not on PATH").unwrap_or(());
    }
    let database = Database::start();
    let port = database.address().port().to_string();
    let cli = |words: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output();
        let output = output.expect("redis-cli runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    assert_eq!(cli(&["-3", "set", "a", "b"]), "OK");
    assert_eq!(cli(&["-x", "set", "from-stdin"]), "OK");
    assert_eq!(cli(&["--json", "-3", "mget", "a", "absent"]), "[\"b\",null]");
    assert_eq!(cli(&["-r", "3", "incr", "n"]), "1\n2\n3");
    assert_eq!(cli(&["--scan", "--pattern", "a*"]), "a");
    assert!(cli(&["--bigkeys"]).contains("Biggest string found"));
    assert!(cli(&["--memkeys"]).contains("Sampled 3 keys"));
    assert!(cli(&["info", "server"]).contains("redis_version:7"));
    // The input of `redis-cli --pipe`: many commands at once, followed by an ECHO.
    let mut piped = String::new();
    for number in 0..10_000 {
        piped.push_str(&format!("SET piped:{number} {number}\r\n"));
    }
    let file = database.directory().join("piped");
    std::fs::write(&file, piped).expect("a file of the test");
    let output = Command::new("redis-cli")
        .args(["-p", &port, "--pipe"])
        .stdin(Stdio::from(std::fs::File::open(&file).expect("just written")))
        .output()
        .expect("redis-cli runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("errors: 0, replies: 10000"), "{said}");
    assert_eq!(cli(&["dbsize"]), "10003");
}

#[test]
fn redis_benchmark_runs_to_its_end() {
    if on_path("redis-benchmark").is_none() {
        return absent("redis-benchmark is not on PATH").unwrap_or(());
    }
    let database = Database::start_with(&["--workers", "2"]);
    let port = database.address().port().to_string();
    for pipeline in ["1", "16"] {
        let output = Command::new("redis-benchmark")
            .args(["-p", &port, "-n", "4000", "-r", "1000", "-P", pipeline, "--csv"])
            .args(["-t", "ping,set,get,incr,mset"])
            .output()
            .expect("redis-benchmark runs");
        let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        for test in ["ping_inline", "ping_mbulk", "set", "get", "incr", "mset (10 keys)"] {
            assert!(said.contains(&format!("\"{test}\"")), "{test} in {said}{errors}");
        }
        assert!(!said.contains("error") && !errors.contains("ERR"), "{said}{errors}");
    }
}
