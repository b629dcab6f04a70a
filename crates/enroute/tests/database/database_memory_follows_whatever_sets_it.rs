//! The memory limit of `enroute db` can be set by clients, HTTP, a file at SIGHUP, the limit of its
//! cgroup, and an orchestrator's grant, in the real process.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::cgroup::Cgroup;
use crate::support::database::Database;
use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::{Enroute, admin, admin_post};
use crate::support::process::{PATIENCE, Process};

const MIB: u64 = 1 << 20;

fn ask<T: redis::FromRedisValue>(database: &Database, words: &[&str]) -> redis::RedisResult<T> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut database.connection())
}

fn config(database: &Database, name: &str) -> String {
    ask::<Vec<String>>(database, &["CONFIG", "GET", name]).expect("an answer")[1].clone()
}

/// Waits until the database has this memory limit.
fn becomes(database: &Database, mebibytes: u64) {
    let began = Instant::now();
    let expected = (mebibytes * MIB).to_string();
    while config(database, "maxmemory") != expected {
        assert!(
            began.elapsed() < PATIENCE,
            "{} instead of {expected}:\n{}",
            config(database, "maxmemory"),
            database.process().stderr()
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn more_than_the_machine_has_is_refused_at_the_start() {
    let directory = TemporaryDirectory::create();
    let mut command = std::process::Command::new(crate::support::enroute::program());
    command.args(["db", "--listen", "127.0.0.1:0", "--memory", "900000GB", "--dir"]);
    let ended = Process::start(command.arg(directory.path().join("data"))).wait();
    assert!(
        !ended.status.success() && ended.stderr.contains("the machine has"),
        "{}",
        ended.stderr
    );
}

#[test]
fn clients_and_http_change_it() {
    let database = Database::start_with(&["--memory", "48MiB", "--admin", "127.0.0.1:0"]);
    assert_eq!(ask::<u64>(&database, &["RESCALE"]).expect("a number"), 48 * MIB);
    ask::<()>(&database, &["RESCALE", "64MiB"]).expect("OK");
    becomes(&database, 64);
    ask::<()>(&database, &["CONFIG", "SET", "maxmemory", "80mb"]).expect("OK");
    becomes(&database, 80);
    let answer = admin_post(database.admin(), "/storage", r#"{"memory": "96MiB"}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    becomes(&database, 96);
    let stats: serde_json::Value =
        serde_json::from_str(&admin(database.admin(), "/stats").body).expect("JSON");
    assert_eq!(stats["memory_bytes"], 96 * MIB, "{stats}");
    for wrong in [
        r#"{"memory": "much"}"#,
        r#"{"memori": "96MiB"}"#,
        "96MiB",
        r#"{"memory": "31MiB"}"#,
        r#"{"memory": "64MiB", "items": 5}"#,
    ] {
        assert_eq!(admin_post(database.admin(), "/storage", wrong).status, 400, "{wrong}");
    }
    let refusal = ask::<()>(&database, &["RESCALE", "1MiB"]).expect_err("too little");
    assert!(refusal.to_string().contains("at least 32MiB"), "{refusal}");
    becomes(&database, 96);
}

#[test]
fn a_file_read_again_at_sighup_changes_memory_sync_and_goal() {
    let files = TemporaryDirectory::create();
    let file = files.path().join("db.toml");
    let write = |text: &str| fs::write(&file, text).expect("a file of the test");
    write("memory = \"48MiB\"\nsync = \"always\"\n");
    let database = Database::start_with(&["--config", file.to_str().expect("a plain path")]);
    assert_eq!(config(&database, "maxmemory"), (48 * MIB).to_string());
    assert_eq!(config(&database, "appendfsync"), "always");
    write("memory = \"96MiB\"\nsync = \"no\"\n");
    database.process().signal("HUP");
    becomes(&database, 96);
    assert_eq!(config(&database, "appendfsync"), "no");
    // A mistake changes nothing.
    write("memory = \"40MiB\"\nsynk = \"no\"\n");
    database.process().signal("HUP");
    assert!(database.process().stderr_line("SIGHUP: reload failed").is_some());
    assert_eq!(config(&database, "maxmemory"), (96 * MIB).to_string());
    write("memory = \"40MiB\"\nautoscale = \"p99=1ms,max=64MiB\"\n");
    database.process().signal("HUP");
    // Up to the maximum of the goal.
    becomes(&database, 64);
    assert_eq!(config(&database, "autoscale"), "p99=1ms,max=64MiB");
}

#[test]
fn it_follows_the_limit_of_its_cgroup() {
    let Some(cgroup) = Cgroup::make("follow") else { return };
    cgroup.set_limit(200 * MIB);
    let mut database = Database::start_after(&cgroup.entry(), &["--follow-cgroup", "50"]);
    becomes(&database, 100);
    cgroup.set_limit(400 * MIB);
    becomes(&database, 200);
    cgroup.set_limit(100 * MIB);
    becomes(&database, 50);
    assert_eq!(ask::<String>(&database, &["SET", "a", "b"]).expect("an answer"), "OK");
    database.bring_down();
}

/// Sends `body` to the receiver; returns the reply.
fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the receiver listens");
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and closes");
    answer
}

#[test]
fn an_orchestrator_is_asked_before_memory_is_taken() {
    let Some(cgroup) = Cgroup::make("orchestrated") else { return };
    let directory = cgroup.path().to_str().expect("a plain path").to_owned();
    let receiver = Enroute::start(&[
        "db",
        "orchestrator",
        "--listen",
        "127.0.0.1:0",
        "--cgroup",
        &directory,
        "--max",
        "96MiB",
    ]);
    let line = receiver.stderr_line("grants memory");
    let url = line.split(' ').next().expect("a URL");
    // Not the minimum: the code of a build without optimizations takes 27 MiB.
    let options = ["--memory", "48MiB", "--orchestrator", url];
    let mut database = Database::start_after(&cgroup.entry(), &options);
    let request = |size: &str| ask::<String>(&database, &["RESCALE", "REQUEST", size]);
    assert_eq!(request("64MiB").expect("an answer"), "OK");
    becomes(&database, 64);
    assert_eq!(cgroup.limit(), Some(72 * MIB));
    // A grant is limited to the available memory.
    assert_eq!(request("4GiB").expect("an answer"), "OK");
    becomes(&database, 96);
    assert_eq!(cgroup.limit(), Some(108 * MIB));
    // Memory is given back once the process has released it.
    assert_eq!(request("48MiB").expect("an answer"), "OK");
    becomes(&database, 48);
    let began = Instant::now();
    while cgroup.limit() != Some(54 * MIB) {
        assert!(
            began.elapsed() < PATIENCE,
            "{:?}: {}",
            cgroup.limit(),
            database.process().stderr()
        );
        thread::sleep(Duration::from_millis(10));
    }
    // An invalid request changes nothing.
    let address: SocketAddr =
        url.trim_start_matches("http://").trim_end_matches("/rescale").parse().expect("an address");
    assert!(post(address, "/rescale", "{\"memory_bytes\": 1}").starts_with("HTTP/1.1 400"));
    assert!(post(address, "/rescale", "\u{0}").starts_with("HTTP/1.1 400"));
    assert!(post(address, "/other", "{}").starts_with("HTTP/1.1 404"));
    assert_eq!(cgroup.limit(), Some(54 * MIB));
    // Without an orchestrator memory does not grow, and the database continues.
    receiver.terminate();
    assert_eq!(request("64MiB").expect("an answer"), "OK");
    assert!(database.process().stderr_line("the budget stays at").is_some());
    assert_eq!(config(&database, "maxmemory"), (48 * MIB).to_string());
    database.bring_down();
}

#[test]
fn a_request_without_an_orchestrator_is_refused() {
    let database = Database::start();
    let answer = ask::<String>(&database, &["RESCALE", "REQUEST", "64MiB"]);
    assert!(answer.expect_err("there is no orchestrator").to_string().contains("no orchestrator"));
    for wrong in ["p99=1ms", "p99=1ms,max=1", "fast"] {
        let answer = ask::<String>(&database, &["CONFIG", "SET", "autoscale", wrong]);
        assert!(answer.expect_err("no goal").to_string().contains("p99=1ms,max=4GiB"));
    }
    ask::<String>(&database, &["CONFIG", "SET", "autoscale", "p99=250us,max=1gb"]).expect("a goal");
    assert_eq!(config(&database, "autoscale"), "p99=250us,max=1024MiB");
    ask::<String>(&database, &["CONFIG", "SET", "autoscale", ""]).expect("none");
    assert_eq!(config(&database, "autoscale"), "");
}
