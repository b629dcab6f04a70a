//! `enroute top` against running services: hit ratio, latency, hot keys, reasons and bound; and the
//! latencies behind it, in `/stats` and as histograms of Prometheus.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{
    directory::{TemporaryDirectory, on_path},
    enroute::{Enroute, admin, program},
    origins::{Redis, absent},
    process::{PATIENCE, free_address},
};

fn cache(redis: &Redis) -> Enroute {
    let origin = format!("redis://{}", redis.address());
    let listen = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    Enroute::start(&[&listen[..], &["--admin", "127.0.0.1:0"]].concat())
}

fn client(address: SocketAddr) -> redis::Connection {
    redis::Client::open(format!("redis://{address}/")).unwrap().get_connection().unwrap()
}

fn stats(at: SocketAddr) -> Value {
    serde_json::from_str(&admin(at, "/stats").body).unwrap()
}

/// What `enroute top --once` prints, on either stream, and whether it succeeded.
fn top(arguments: &[&str]) -> (bool, String) {
    let once = ["top", "--once", "--interval", "200ms"];
    let ended = Enroute::start(&[&once[..], arguments].concat()).wait();
    (ended.status.success(), ended.stdout + &ended.stderr)
}

/// Reads one key nine times in ten, as fast as it can, until it is told to end.
fn read_on(mut client: redis::Connection, over: &AtomicBool) {
    for at in 0_u64.. {
        let key = if at % 10 == 0 { format!("rare:{at}") } else { "user:hot".to_owned() };
        redis::cmd("GET").arg(key).exec(&mut client).unwrap();
        if over.load(Relaxed) {
            break;
        }
    }
}

/// Ends [`read_on`] when it is dropped, so that a failed assertion does not wait for it.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn one_frame_has_ratio_latency_reasons_keys_and_bound_of_the_interval() {
    let Some(redis) = Redis::start() else { return };
    let enroute = cache(&redis);
    let (listen, at) = (enroute.listen_address("redis"), enroute.admin_address().to_string());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| read_on(client(listen), &over));
        let reads = Ends(&over);
        // The share comes from a sample; a small one can be far off.
        let started = Instant::now();
        let frame = loop {
            let (done, frame) = top(&[&at]);
            assert!(done, "{frame}");
            let share = frame.split("user:hot ").nth(1).and_then(|rest| rest.split(' ').next());
            let share = share.map_or(0.0, |share| share.parse().unwrap());
            if (80.0..=100.0).contains(&share) {
                break frame;
            }
            assert!(started.elapsed() < PATIENCE, "{frame}");
        };
        drop(reads);
        let row = |name: &str| {
            let row = frame.lines().find(|line| line.trim_start().starts_with(name));
            row.unwrap_or_else(|| panic!("no {name} in {frame}")).to_owned()
        };
        let title = frame.lines().next().unwrap_or_default();
        assert!(title.starts_with(&format!("cache {at}, version ")), "{frame}");
        let ratio = row("reads").split("hit ratio ").nth(1).unwrap().to_owned();
        let ratio: f64 = ratio.split(' ').next().unwrap().parse().unwrap();
        assert!((85.0..95.0).contains(&ratio), "{frame}");
        for name in ["hits", "misses"] {
            let row = row(name);
            assert!(row.contains("p50") && !row.contains(" - "), "{frame}");
        }
        assert!(row("why not").contains("not-stored"), "{frame}");
        assert!(row("hot keys").contains("user:hot "), "{frame}");
        assert!(row("bound").contains(&format!("300.0 s, redis://{listen} -> ")), "{frame}");
    });
}

#[test]
fn latencies_are_counted_for_hits_and_for_misses() {
    let Some(redis) = Redis::start() else { return };
    let enroute = cache(&redis);
    let (listen, at) = (enroute.listen_address("redis"), enroute.admin_address());
    let mut client = client(listen);
    redis::cmd("SET").arg("user:1").arg("one").exec(&mut client).unwrap();
    for _ in 0..12 {
        redis::cmd("GET").arg("user:1").exec(&mut client).unwrap();
    }
    let number = |stats: &Value, path: &str| stats.pointer(path).unwrap().as_f64().unwrap();
    let (latencies, started) = ("/reads/hit_latency/count", Instant::now());
    // A hit is timed after the client may have received its answer.
    let before = loop {
        let now = stats(at);
        if number(&now, "/reads/hits") == number(&now, latencies) {
            break now;
        }
        assert!(started.elapsed() < PATIENCE, "{now:#}");
    };
    let hits = number(&before, "/reads/hits");
    assert!(hits >= 10.0, "{before:#}");
    assert!(number(&before, "/reads/hit_latency/sum") > 0.0, "{before:#}");
    let slept = Duration::from_millis(200);
    redis.process().stop();
    thread::scope(|scope| {
        let read = scope.spawn(|| redis::cmd("GET").arg("user:2").exec(&mut client).unwrap());
        // Once it was forwarded.
        while number(&stats(at), "/reads/misses") == number(&before, "/reads/misses") {
            thread::yield_now();
        }
        thread::sleep(slept);
        redis.process().signal("CONT");
        read.join().unwrap();
    });
    let after = stats(at);
    let count = "/reads/miss_latency/count";
    assert_eq!(number(&after, count), number(&before, count) + 1.0, "{after:#}");
    assert!(number(&after, "/reads/miss_latency/p99") >= slept.as_secs_f64(), "{after:#}");
    assert_eq!(number(&after, "/reads/hit_latency/count"), hits, "{after:#}");

    let metrics = admin(at, "/metrics").body;
    for line in [
        format!("enroute_hit_latency_seconds_count {hits}"),
        format!("enroute_hit_latency_seconds_bucket{{le=\"+Inf\"}} {hits}"),
        "# TYPE enroute_miss_latency_seconds histogram".to_owned(),
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is not in:\n{metrics}");
    }
}

#[test]
fn frames_follow_each_other_in_the_terminal_until_q() {
    let Some(redis) = Redis::start() else { return };
    let Some(script) = on_path("script") else {
        return absent("script (util-linux) is not on PATH").unwrap_or(());
    };
    let enroute = cache(&redis);
    let top = format!("{} top {} --interval 100ms", program().display(), enroute.admin_address());
    let mut terminal = Command::new(script)
        .args(["-qec", &top, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    let mut out = terminal.stdout.take().unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let mut asked = false;
    loop {
        match out.read(&mut piece).unwrap() {
            0 => break,
            count => shown.extend_from_slice(&piece[..count]),
        }
        let text = String::from_utf8_lossy(&shown);
        // The second frame is that of an interval.
        if !asked && text.contains("since the start\x1b[K") && text.contains("last interval") {
            keys.write_all(b"q").unwrap();
            asked = true;
        }
    }
    let text = String::from_utf8_lossy(&shown);
    assert!(terminal.wait().unwrap().success(), "{text}");
    assert!(
        text.starts_with("\x1b[?1049h") && text.trim_end().ends_with("\x1b[?1049l"),
        "{text:?}"
    );
}

#[test]
fn several_services_are_shown_below_each_other() {
    let Some(redis) = Redis::start() else { return };
    let cache = cache(&redis);
    let directory = TemporaryDirectory::create();
    let data = directory.path().join("data").display().to_string();
    let db = ["db", "--listen", "127.0.0.1:0", "--dir", &data, "--admin", "127.0.0.1:0"];
    let db = Enroute::start(&db);
    let nowhere = free_address().to_string();
    let cluster = ["--cluster", &nowhere, "--admin", "127.0.0.1:0"];
    let agent = [&["state", "agent", "--listen", "127.0.0.1:0"], &cluster[..]].concat();
    let agent = Enroute::start(&agent);
    let placer = Enroute::start(&[&["state", "placer"], &cluster[..]].concat());
    let [first, second, third, fourth] =
        [&cache, &db, &agent, &placer].map(|service| service.admin_address().to_string());
    // As a browser names them.
    let (done, text) = top(&[&format!("http://{first}/"), &second, &third, &fourth]);
    assert!(done, "{text}");
    let titles: Vec<_> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(titles[0].starts_with(&format!("cache {first}, ")), "{text}");
    assert!(titles[1].starts_with(&format!("db {second}, ")), "{text}");
    assert!(text.contains("  entries   0, "), "{text}");
    assert!(titles[2].starts_with(&format!("agent {third}, ")), "{text}");
    assert!(text.contains("  copies             0/s   p50        -   p99        -"), "{text}");
    assert!(titles[3].starts_with(&format!("placer {fourth}, ")), "{text}");
    assert!(text.contains("  leads     no\n"), "{text}");
}

#[test]
fn errors_say_what_to_do() {
    let nothing = free_address().to_string();
    let (done, said) = top(&[&nothing]);
    assert!(!done && said.contains("start the service with --admin"), "{said}");
    assert!(said.contains(&nothing), "{said}");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answer = thread::spawn(move || {
        let (mut client, _) = other.accept().unwrap();
        let _ = client.read(&mut [0; 4096]).unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    });
    let (done, said) = top(&[&address]);
    answer.join().unwrap();
    assert!(!done && said.contains("is no admin endpoint of `enroute cache`"), "{said}");

    let ended = Enroute::start(&["top", "--interval", "1ms"]).wait();
    assert!(!ended.status.success() && ended.stderr.contains("at least 100ms"), "{}", ended.stderr);
}
