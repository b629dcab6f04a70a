//! `--log debug` logs each connection and decision, `--log trace` each step of a request; neither
//! shows a value or a password, and a key cannot forge a line.

use serde_json::Value;

use crate::support::{enroute::Enroute, origins::Redis};

/// A key that contains a line break and a terminal escape sequence.
const KEY: &str = "user:1\n\u{1b}[31m";
const ESCAPED: &str = r"user:1\n\x1b[31m";
const VALUE: &str = "do-not-show-this-value";
const PASSWORD: &str = "do-not-show-this-password";

/// A cache with these options, after a failed login, a write, and reads until one was a hit.
fn used(redis: &Redis, options: &[&str]) -> Enroute {
    let origin = format!("redis://{}", redis.address());
    let cache = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    let enroute = Enroute::start(&[&cache[..], options].concat());
    let listen = enroute.listen_address("redis");
    let client = redis::Client::open(format!("redis://{listen}/")).unwrap();
    let mut client = client.get_connection().unwrap();
    redis::cmd("AUTH").arg("default").arg(PASSWORD).exec(&mut client).ok();
    redis::cmd("SET").arg(KEY).arg(VALUE).exec(&mut client).unwrap();
    // The first read makes the cache query the connection's rights.
    for _ in 0..4 {
        let read: String = redis::cmd("GET").arg(KEY).query(&mut client).unwrap();
        assert_eq!(read, VALUE);
    }
    enroute
}

#[test]
fn trace_follows_a_request_through_every_module() {
    let Some(redis) = Redis::start() else { return };
    let enroute = used(&redis, &["--log", "trace", "--log-format", "json"]);
    enroute.stderr_line("\"message\":\"client connection ended\"");
    let text = enroute.terminate().stderr;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> =
        lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let hit = lines.iter().find(|line| line["message"] == "hit").expect("a hit");
    assert_eq!((&hit["command"], &hit["key"]), (&"get".into(), &ESCAPED.into()), "{hit}");
    for (message, level) in [
        ("client connected", "DEBUG"),
        ("origin connected", "DEBUG"),
        ("filter: request", "TRACE"),
        ("storage: asked", "TRACE"),
        ("manager: sent to the origin", "TRACE"),
        ("origin: reply", "TRACE"),
        ("write", "DEBUG"),
        ("write answered", "DEBUG"),
        ("miss", "DEBUG"),
        ("hit", "DEBUG"),
        ("client connection ended", "DEBUG"),
    ] {
        let found = lines.iter().find(|line| {
            line["message"] == message
                && line["level"] == level
                && line["connection"] == hit["connection"]
        });
        assert!(found.is_some(), "no {level} {message:?}:\n{text}");
    }
    assert!(!text.contains(VALUE) && !text.contains(PASSWORD), "{text}");
}

#[test]
fn debug_tells_decisions_and_warn_tells_none() {
    let Some(redis) = Redis::start() else { return };
    let text = used(&redis, &["--log", "debug"]).terminate().stderr;
    for part in ["client connected", " hit ", " miss ", "why_not=\"not-stored\"", ESCAPED] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("filter: ") && !text.contains('\u{1b}'), "{text}");
    assert!(!text.contains(VALUE) && !text.contains(PASSWORD), "{text}");
    let text = used(&redis, &[]).terminate().stderr;
    assert!(!text.contains("connected") && !text.contains("user:1"), "{text}");
}
