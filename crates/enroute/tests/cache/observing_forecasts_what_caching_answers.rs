//! `--observe`: nothing is served from storage, and the forecast is what caching then answers.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{
    directory::on_path,
    enroute::{Enroute, admin, admin_post},
    origins::{Memcached, Redis},
};

/// One of 300 keys; the first are read most.
fn key(random: u64) -> String {
    let share = (random % 1_000_003) as f64 / 1_000_003.0;
    format!("user:{}", (300.0 * share.powi(3)) as u64)
}

/// The same reads and writes each time; returns the number of reads.
fn send_traffic(address: SocketAddr) -> usize {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    let mut connection = client.get_connection().unwrap();
    let set = |connection: &mut redis::Connection, key: &str| {
        redis::cmd("SET").arg(key).arg("x".repeat(100)).exec(connection).unwrap();
    };
    (0..300).for_each(|number| set(&mut connection, &format!("user:{number}")));
    let (mut random, mut reads) = (7_u64, 0);
    for at in 0..6_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = key(random >> 20);
        if at % 20 == 0 {
            set(&mut connection, &key);
        } else {
            redis::cmd("GET").arg(&key).exec(&mut connection).unwrap();
            reads += 1;
        }
    }
    reads
}

/// Calls of each command at a server.
fn calls(redis: &Redis) -> HashMap<String, usize> {
    let mut connection = redis.connection();
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let call = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(call).collect()
}

fn start(origin: &str, more: &[&str]) -> Enroute {
    let scheme = origin.split("://").next().unwrap();
    let listen = format!("{scheme}://127.0.0.1:0");
    let arguments = ["cache", "--listen", &listen, "--origin", origin, "--admin", "127.0.0.1:0"];
    Enroute::start(&[&arguments[..], more].concat())
}

fn stats(enroute: &Enroute) -> Value {
    serde_json::from_str(&admin(enroute.admin_address(), "/stats").body).unwrap()
}

fn number(stats: &Value, path: &str) -> f64 {
    stats.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {stats}"))
}

#[test]
fn the_forecast_for_redis_is_within_two_points_of_caching() {
    let (Some(observed), Some(cached)) = (Redis::start(), Redis::start()) else { return };
    let observing = start(&format!("redis://{}", observed.address()), &["--observe"]);
    let reads = send_traffic(observing.listen_address("redis"));
    let forecast = stats(&observing);
    assert_eq!(number(&forecast, "/reads/hits"), 0.0);
    assert_eq!(number(&forecast, "/storage/items"), 0.0);
    assert_eq!(number(&forecast, "/fills/filled"), 0.0);
    assert_eq!(number(&forecast, "/forecast/reads"), reads as f64);
    let at_origin = calls(&observed);
    assert_eq!(at_origin["get"], reads, "the origin sees each read");

    let caching = start(&format!("redis://{}", cached.address()), &[]);
    send_traffic(caching.listen_address("redis"));
    let counted = stats(&caching);
    assert!(counted.get("forecast").is_none());
    let (hits, misses) = (number(&counted, "/reads/hits"), number(&counted, "/reads/misses"));
    let (foreseen, ratio) = (number(&forecast, "/forecast/hit_ratio"), hits / (hits + misses));
    assert!((foreseen - ratio).abs() < 0.02 && ratio > 0.5, "{foreseen} {ratio}");
    // Of what the cache asks for itself, observing asks no more.
    assert!(at_origin["pttl"] <= calls(&cached)["pttl"], "{at_origin:?}");
    let group = &forecast["forecast"]["groups"][0];
    assert_eq!((group["command"].as_str(), group["prefix"].as_str()), (Some("get"), Some("user:")));
    assert!((number(group, "/hits") - hits).abs() < 0.02 * reads as f64, "{group} {hits}");
    assert!((number(group, "/bytes") - 100.0 * hits).abs() < 0.2 * 100.0 * hits, "{group} {hits}");
    assert!(number(group, "/p50") > 0.0 && number(&forecast, "/forecast/latency/count") > 0.0);
}

#[test]
fn the_forecast_is_in_metrics_in_top_in_explain_and_in_the_output() {
    let (Some(redis), Some(redis_cli)) = (Redis::start(), on_path("redis-cli")) else { return };
    let observing = start(&format!("redis://{}", redis.address()), &["--observe"]);
    let (listen, at) = (observing.listen_address("redis"), observing.admin_address());
    let port = listen.port().to_string();
    let mut session = Command::new(redis_cli)
        .args(["-p", &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A read that arrives before the reply to the probe of the first is no hit.
    let said = "SET user:1 one\n".to_owned() + &"GET user:1\n".repeat(20);
    session.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    let answers = session.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(answers).unwrap(), "OK\n".to_owned() + &"one\n".repeat(20));
    let metrics = admin(at, "/metrics").body;
    let metric = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    };
    assert_eq!(metric("enroute_forecast_reads{command=\"get\",prefix=\"user:\"}"), 20.0);
    let ratio = metric("enroute_forecast_hit_ratio{memory_bytes=\"67108864\"}");
    assert!((0.5..1.0).contains(&ratio), "{metrics}");
    let top = Enroute::start(&["top", "--once", "--interval", "100ms", &at.to_string()]).wait();
    assert!(top.stdout.contains("  forecast  hit ratio "), "{}", top.stdout);
    let answer = admin_post(at, "/explain", r#"{"request": ["GET", "user:1"]}"#).body;
    assert!(answer.contains("miss (observed)"), "{answer}");
    let ended = observing.terminate();
    let text = &ended.stdout;
    assert!(
        text.contains("forecast: 20 reads seen, 20 of them by key. Nothing was stored."),
        "{text}"
    );
    assert!(text.contains("as configured") && text.contains("get          user:"), "{text}");
    assert!(ended.stderr.contains("reads are only observed"), "{}", ended.stderr);
}

#[test]
fn memcached_is_observed_too() {
    let Some(memcached) = Memcached::start() else { return };
    let observing = start(&format!("memcached://{}", memcached.address()), &["--observe"]);
    let mut client = TcpStream::connect(observing.listen_address("memcached")).unwrap();
    let mut ask = |request: &str, length: usize| {
        let mut answer = vec![0; length];
        client.write_all(request.as_bytes()).unwrap();
        client.read_exact(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    };
    assert_eq!(ask("set a.1 0 0 3\r\none\r\n", 8), "STORED\r\n");
    for _ in 0..20 {
        assert_eq!(ask("get a.1\r\n", 25), "VALUE a.1 0 3\r\none\r\nEND\r\n");
    }
    let stats = stats(&observing);
    assert_eq!((number(&stats, "/reads/hits"), number(&stats, "/reads/misses")), (0.0, 20.0));
    // A read that arrives before the reply to the probe of the first is no hit.
    assert!(number(&stats, "/forecast/groups/0/hits") >= 10.0, "{stats}");
}
