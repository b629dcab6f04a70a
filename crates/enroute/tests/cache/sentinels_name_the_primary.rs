//! The cache follows the primary that Sentinels name through failovers: no data of the former
//! primary is served once the next one is used, one wrong Sentinel changes nothing, and while all
//! are down the primary stays in use.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::directory::{TemporaryDirectory, python};
use crate::support::enroute::Enroute;
use crate::support::origins::Redis;
use crate::support::process::{PATIENCE, Process};
use crate::support::raw::Raw;
use crate::support::sentinels::{NAME, Sentinel, Watched, origin};

const PAUSE: Duration = Duration::from_millis(10);

/// A cache whose origin is `origin`.
fn cache(origin: &str, options: &str) -> Enroute {
    let text = format!(
        "workers = 2\n[[listener]]\nlisten = \"redis://127.0.0.1:0\"\norigin = \"{origin}\"\n{options}\n"
    );
    let enroute = Enroute::start_with_config(&["--log", "info", "cache"], &text);
    enroute.stderr_line(&format!("the primary of `{NAME}` is "));
    enroute
}

/// Waits for the log line that `primary` is used instead of another.
fn follows(enroute: &Enroute, primary: &Redis) {
    let part = format!("the primary of `{NAME}` is {}", primary.address());
    let started = Instant::now();
    while !enroute.process().stderr().lines().any(|line| line.contains(&part)) {
        assert!(started.elapsed() < PATIENCE, "not followed:\n{}", enroute.process().stderr());
        thread::sleep(PAUSE);
    }
}

/// Reads until the first reply without an error, which must be `expected`.
fn reads(enroute: &Enroute, key: &str, expected: &str) {
    let started = Instant::now();
    loop {
        let mut client = Raw::connect(enroute.listen_address("redis"));
        client.command(&format!("GET {key}"));
        let line = client.hear_line();
        if !line.starts_with('-') {
            assert_eq!(line, expected);
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{line}");
        thread::sleep(PAUSE);
    }
}

#[test]
fn what_only_the_killed_primary_had_is_never_served_by_the_next() {
    for feed in ["", "feed = {}"] {
        let Some(mut watched) = Watched::start(None) else { return };
        let enroute = cache(&watched.origin(), feed);
        let mut hitting = Raw::connect(enroute.listen_address("redis"));
        if !feed.is_empty() {
            enroute.stderr_line("feed established");
        }
        hitting.ask("SET kept v", "+OK\r\n");
        hitting.ask("WAIT 1 0", ":1\r\n");
        // From here on nothing is replicated.
        let mut direct = watched.nodes[0].connection();
        let mut run = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            redis::cmd(words[0]).arg(&words[1..]).exec(&mut direct).expect("done");
        };
        run("ACL SETUSER default -psync -sync");
        run("CLIENT KILL TYPE replica");
        hitting.ask("SET lost v", "+OK\r\n");
        for _ in 0..3 {
            hitting.ask("GET lost", "$1\r\nv\r\n");
        }
        watched.nodes[0].bring_down();
        follows(&enroute, &watched.nodes[1]);
        reads(&enroute, "lost", "$-1\r\n");
        reads(&enroute, "kept", "$1\r\n");
        // Nor is the client served that had it as a hit, if its connection was not closed.
        hitting.command("GET lost");
        let mut said = [0; 4];
        let said = hitting.hear_at_most(&mut said);
        assert!(said.is_empty() || said.starts_with(b"$-1"), "{said:?}");
    }
}

#[test]
fn a_failover_that_was_asked_for_is_followed_and_writes_go_to_the_next_primary() {
    let Some(watched) = Watched::start(None) else { return };
    let enroute = cache(&watched.origin(), "");
    let mut client = Raw::connect(enroute.listen_address("redis"));
    client.ask("SET k 1", "+OK\r\n");
    // A client with state at the primary; its connection ends with the primary's.
    let mut stateful = Raw::connect(enroute.listen_address("redis"));
    stateful.ask("WATCH k", "+OK\r\n");
    watched.fail_over();
    follows(&enroute, &watched.nodes[1]);
    stateful.hear_end();
    let started = Instant::now();
    loop {
        let mut client = Raw::connect(enroute.listen_address("redis"));
        client.command("SET k 2");
        match client.hear_line().as_str() {
            "+OK\r\n" => break,
            line => assert!(started.elapsed() < PATIENCE, "{line}"),
        }
    }
    let value: String =
        redis::cmd("GET").arg("k").query(&mut watched.nodes[1].connection()).expect("a value");
    assert_eq!(value, "2");
}

#[test]
fn a_sentinel_that_lies_is_not_believed_and_without_sentinels_the_primary_stays() {
    let (Some(mut watched), Some(other)) = (Watched::start(Some("secret")), Redis::start()) else {
        return;
    };
    // It monitors another primary under the same name.
    let liar = Sentinel::start(other.address(), 1, Some("secret")).expect("started before");
    watched.sentinels.pop();
    let mut hosts: Vec<_> = watched.sentinels.iter().map(Sentinel::address).collect();
    hosts.insert(0, liar.address());
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("password");
    fs::write(&file, "secret\n").expect("a writable directory");
    let login = format!("sentinel = {{ password_file = \"{}\" }}", file.display());
    let enroute = cache(&origin(&hosts), &login);
    let mut client = Raw::connect(enroute.listen_address("redis"));
    client.ask("SET k v", "+OK\r\n");
    let at = |node: &Redis| -> Option<String> {
        redis::cmd("GET").arg("k").query(&mut node.connection()).expect("a reply")
    };
    assert_eq!((at(&watched.nodes[0]).as_deref(), at(&other)), (Some("v"), None));
    for sentinel in watched.sentinels.drain(..).chain([liar]) {
        sentinel.process().signal("KILL");
        drop(sentinel);
    }
    let line = enroute.stderr_line("no failover can be followed");
    assert!(line.contains(&watched.nodes[0].address().to_string()), "{line}");
    client.ask("GET k", "$1\r\nv\r\n");
    client.ask("SET k w", "+OK\r\n");
    assert_eq!(at(&watched.nodes[0]).as_deref(), Some("w"));
    let said = enroute.process().stderr();
    assert!(!said.contains(&format!("is {}", other.address())), "{said}");
}

#[test]
fn redis_py_reads_what_was_confirmed_through_failovers() {
    let Some(python) = python() else { return };
    let Some(mut watched) = Watched::start(None) else { return };
    let enroute = cache(&watched.origin(), "");
    let directory = TemporaryDirectory::create();
    let stop = directory.path().join("stop");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/redis_failover.py");
    let clients = Process::start(
        Command::new(python)
            .arg(script)
            .arg(enroute.listen_address("redis").to_string())
            .arg(&stop),
    );
    let confirmed = || -> u64 {
        let text = clients.stdout();
        let line = text.lines().rfind(|line| line.starts_with("confirmed="));
        let number = line.and_then(|line| line["confirmed=".len()..].split(' ').next());
        number.map_or(0, |number| number.parse().expect("a number"))
    };
    let go_on = || {
        let (started, before) = (Instant::now(), confirmed());
        while confirmed() < before + 200 {
            assert!(
                started.elapsed() < PATIENCE && !clients.has_ended(),
                "{}\n{}\n{}",
                clients.stdout(),
                clients.stderr(),
                enroute.process().stderr()
            );
            thread::sleep(PAUSE);
        }
    };
    go_on();
    watched.fail_over();
    follows(&enroute, &watched.nodes[1]);
    watched.settle();
    go_on();
    watched.nodes[1].bring_down();
    let told = || {
        let text = enroute.process().stderr();
        text.lines().filter(|line| line.contains("the primary of `")).count()
    };
    let started = Instant::now();
    while told() < 3 {
        assert!(started.elapsed() < PATIENCE, "{}", enroute.process().stderr());
        thread::sleep(PAUSE);
    }
    // The node returns as a replica, so that writes are acknowledged again.
    watched.nodes[1].bring_up();
    go_on();
    fs::write(&stop, "").expect("a writable directory");
    let ended = clients.wait();
    eprintln!("{}", ended.stdout.lines().rfind(|line| line.starts_with('{')).unwrap_or_default());
    assert!(ended.status.success(), "{}\n{}", ended.stdout, ended.stderr);
}
