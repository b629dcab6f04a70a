//! Keys that an unanswered write may have changed are not cached for the quarantine. The client and
//! the command that caused it are logged once, however often it happens, and are in `/stats` next
//! to `why-not.quarantine`.

use std::io::Read;
use std::net::SocketAddr;

use crate::support::enroute::{Cache, admin};
use crate::support::process::serve_each;
use crate::support::raw::{RIGHTS, Raw};

/// An origin that grants all rights, answers reads, and closes the connection at a write.
fn origin() -> SocketAddr {
    serve_each(|mut stream| {
        let mut bytes = [0; 4 << 10];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let said = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if said.contains("FLUSHALL") {
                return;
            }
            let answer = |word: &str, reply: &str| reply.repeat(said.matches(word).count());
            let rights = answer("GETUSER", RIGHTS);
            let values = answer("GET\r\n", "$1\r\nv\r\n");
            Raw::from(stream.try_clone().expect("a socket")).say(rights + &values);
        }
    })
}

#[test]
fn a_quarantine_names_its_cause() {
    const TIMES: usize = 5;
    let toml = "[admin]\nlisten = \"127.0.0.1:0\"\n[storage]\nquarantine = \"60min\"\n";
    let cache = Cache::start("redis", origin(), toml);
    for _ in 0..TIMES {
        let mut client = Raw::connect(cache.address());
        client.command("FLUSHALL");
        client.hear_end();
    }
    let lost = |statistics: &crate::support::enroute::Statistics| {
        statistics.get("quarantined-by.flushall@127.0.0.1") == Some(&(TIMES as f64))
    };
    cache.statistics_once(lost);
    let mut reader = Raw::connect(cache.address());
    // The first command makes the cache check the rights.
    for _ in 0..2 {
        reader.ask("GET k", "$1\r\nv\r\n");
    }
    cache.statistics_once(|statistics| statistics.contains_key("why-not.quarantine"));

    let line = cache.log_line("admin: http://");
    let at = line.trim_start_matches("admin: http://").trim_end_matches('/');
    let statistics = admin(at.parse().expect("an address"), "/stats").body;
    let statistics: serde_json::Value = serde_json::from_str(&statistics).expect("JSON");
    let causes = &statistics["listeners"][0]["quarantine_causes"];
    assert_eq!(causes.as_array().map(Vec::len), Some(1), "{causes}");
    assert_eq!(causes[0]["client"], "127.0.0.1");
    assert_eq!(causes[0]["command"], "flushall");
    assert_eq!(causes[0]["closed"], "everything of this origin");
    assert_eq!(causes[0]["writes"], TIMES);

    let log = cache.process().stderr();
    let lines = log.lines().filter(|line| line.contains("the reply to a write was lost"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("flushall") && lines[0].contains("peer=127.0.0.1:"), "{}", lines[0]);
}
