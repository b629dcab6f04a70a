//! The admin endpoint of the real binary: its counters match the requests, in JSON and as
//! Prometheus metrics; errors state what is expected; without the option no port is open.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{fs, thread};

use crate::support::directory::on_path;
use crate::support::enroute::{Enroute, admin, admin_post, ask};
use crate::support::origins::Redis;
use crate::support::process::{PATIENCE, free_address};
use serde_json::Value;

fn cache(redis: &Redis, more: &[&str]) -> Enroute {
    let origin = format!("redis://{}", redis.address());
    let arguments = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    Enroute::start(&[&arguments, more].concat())
}

fn client(address: SocketAddr) -> redis::Connection {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    client.get_connection().unwrap()
}

fn stats(at: SocketAddr) -> Value {
    let answer = admin(at, "/stats");
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Waits until `right` is true of the statistics.
fn stats_become(at: SocketAddr, right: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let stats = stats(at);
        if right(&stats) {
            return stats;
        }
        assert!(started.elapsed() < PATIENCE, "still {stats:#}");
        thread::yield_now();
    }
}

#[test]
fn admin_tells_what_the_cache_did() {
    let Some(redis) = Redis::start() else { return };
    let enroute = cache(&redis, &["--admin", "127.0.0.1:0"]);
    let at = enroute.admin_address();
    let mut client = client(enroute.listen_address("redis"));
    let before = stats_become(at, |stats| stats["listeners"][0]["connections"] == 1);

    for key in 0..10 {
        redis::cmd("SET").arg(key).arg("value").exec(&mut client).unwrap();
        for _ in 0..3 {
            let value: String = redis::cmd("GET").arg(key).query(&mut client).unwrap();
            assert_eq!(value, "value");
        }
    }
    redis::cmd("FLUSHALL").exec(&mut client).unwrap();

    let after = stats(at);
    let moved = |path: &str| {
        let number = |stats: &Value| stats.pointer(path).and_then(Value::as_u64).unwrap();
        number(&after) - number(&before)
    };
    assert_eq!(moved("/reads/hits"), 20, "{after:#}");
    assert_eq!(moved("/reads/why_not/not-stored"), 10, "{after:#}");
    assert_eq!(moved("/fills/filled"), 10, "{after:#}");
    assert_eq!(moved("/writes/key"), 10, "{after:#}");
    assert_eq!(moved("/writes/everything"), 1, "{after:#}");
    // Entries invalidated by FLUSHALL are served to no client, and are replaced later.
    assert_eq!(after["storage"]["items"], 10, "{after:#}");
    assert_eq!(after["storage"]["items_max"], Value::Null, "{after:#}");
    assert_eq!(after["storage"]["bytes_max"], 64 << 20, "{after:#}");
    let listener = &after["listeners"][0];
    assert_eq!(listener["protocol"], "redis");
    assert_eq!(listener["origin"], redis.address().to_string());
    assert!(after["process"]["resident_bytes"].as_u64() > Some(1 << 20), "{after:#}");

    drop(client);
    stats_become(at, |stats| stats["listeners"][0]["connections"] == 0);
    assert!(enroute.terminate().status.success());
}

#[test]
fn the_same_numbers_are_prometheus_metrics() {
    let Some(redis) = Redis::start() else { return };
    let enroute = cache(&redis, &["--admin", "127.0.0.1:0", "--capacity", "7"]);
    let mut client = client(enroute.listen_address("redis"));
    for key in 0..9 {
        redis::cmd("SET").arg(key).arg("value").exec(&mut client).unwrap();
        redis::cmd("GET").arg(key).exec(&mut client).unwrap();
    }
    let answer = admin(enroute.admin_address(), "/metrics");
    assert_eq!(answer.status, 200);
    let listen = enroute.listen_address("redis");
    let origin = redis.address();
    for line in [
        r#"enroute_writes_total{scope="key"} 9"#,
        r#"enroute_misses_total{reason="write-pending"} 0"#,
        "enroute_items 7",
        "enroute_items_limit 7",
        "enroute_evictions_total 2",
        &format!(
            "enroute_connections{{listener=\"{listen}\",protocol=\"redis\",origin=\"{origin}\"}} 1"
        ),
    ] {
        let told = answer.body.lines().any(|told| told == line);
        assert!(told, "{line} is not in:\n{}", answer.body);
    }
    check_with_promtool(&answer.body);
}

fn check_with_promtool(metrics: &str) {
    let Some(promtool) = on_path("promtool") else {
        eprintln!("SKIPPED: promtool is not on PATH, so it does not check the metrics");
        return;
    };
    let mut promtool = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn an_origin_that_cannot_be_reached_is_counted() {
    let origin = format!("redis://{}", free_address());
    let arguments = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    let enroute = Enroute::start(&[&arguments[..], &["--admin", "127.0.0.1:0"]].concat());
    let at = enroute.admin_address();
    let mut client = TcpStream::connect(enroute.listen_address("redis")).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    stats_become(at, |stats| stats["listeners"][0]["origin_connect_failures"] == 1);
}

#[test]
fn wrong_requests_are_told_what_is_expected() {
    let Some(redis) = Redis::start() else { return };
    let enroute = cache(&redis, &["--admin", "127.0.0.1:0"]);
    let at = enroute.admin_address();
    assert_eq!((admin(at, "/healthz").status, admin(at, "/").status), (200, 200));

    let long = " ".repeat(5000);
    let misspelt = r#"{"item": 3}"#;
    for (answer, status, expected) in [
        (admin(at, "/statistics"), 404, "/stats"),
        (admin(at, "/flush"), 405, "POST"),
        (admin_post(at, "/storage", "{"), 400, "512MiB"),
        (admin_post(at, "/storage", "{}"), 400, "nothing to change"),
        (admin_post(at, "/storage", misspelt), 400, "expected `items` or `memory`"),
        (admin_post(at, "/storage", r#"{"memory": "1XB"}"#), 400, "64MiB"),
        (admin_post(at, "/storage", r#"{"items": -1}"#), 400, "512MiB"),
        (admin_post(at, "/storage", &long), 400, "4096 bytes"),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        let error = error["error"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    let elsewhere = format!(
        "POST /flush HTTP/1.1\r\nHost: {at}\r\nOrigin: http://other.example\r\n\
         Content-Length: 0\r\n\r\n"
    );
    assert_eq!(ask(at, &elsewhere).status, 403);
    let long = format!("GET / HTTP/1.1\r\nHost: {at}\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(ask(at, &long).status, 431);
}

#[test]
fn without_the_option_there_is_no_admin_listener() {
    let Some(redis) = Redis::start() else { return };
    let enroute = cache(&redis, &[]);
    let address = enroute.listen_address("redis");
    let mut client = client(address);
    redis::cmd("PING").exec(&mut client).unwrap();
    assert_eq!(listening(enroute.process().id()), [address.port()]);

    let asked = cache(&redis, &["--admin", "127.0.0.1:0"]);
    let mut expected = vec![asked.listen_address("redis").port(), asked.admin_address().port()];
    expected.sort_unstable();
    assert_eq!(listening(asked.process().id()), expected);
}

/// The TCP ports on which a process listens, as the kernel reports them.
fn listening(process: u32) -> Vec<u16> {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.replace(']', "")))
        .collect();
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (local, state, inode) = (fields[1], fields[3], fields[9]);
            if state == "0A" && sockets.iter().any(|socket| socket == inode) {
                let (_, port) = local.rsplit_once(':').unwrap();
                ports.push(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports.sort_unstable();
    ports
}
