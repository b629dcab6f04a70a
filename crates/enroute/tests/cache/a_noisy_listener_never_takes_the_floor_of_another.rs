//! Listeners of all four protocols share one memory: a loop over more keys than fit never takes
//! what another listener has as its floor, and the one whose reads need more memory gets it.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{
    enroute::{Enroute, admin, admin_post},
    origins::{Memcached, Redis},
    process::{PATIENCE, free_address},
    raw::Raw,
};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 16 * MIB;
const FLOOR: u64 = MIB;
const VALUE_BYTES: usize = 8 << 10;
/// 6 MiB: almost twice an equal share.
const USEFUL_KEYS: u64 = 768;
/// 128 MiB: no share holds many of them.
const NOISY_KEYS: u64 = 16_384;
/// 256 KiB, which are in the floor.
const QUIET_KEYS: u64 = 32;
/// The listeners, in the order of the configuration.
const USEFUL: usize = 0;
const NOISY: usize = 1;
const QUIET: usize = 2;

fn filled(keys: u64) -> Option<Redis> {
    let redis = Redis::start()?;
    let mut pipeline = redis::pipe();
    (0..keys).for_each(|key| {
        pipeline.set(format!("key:{key}"), [7; VALUE_BYTES].as_slice()).ignore();
    });
    pipeline.exec(&mut redis.connection()).expect("redis-server stores");
    Some(redis)
}

/// The configuration; `more` is for the first listener.
fn configuration(origins: &[SocketAddr; 5], more: &str) -> String {
    let [useful, noisy, quiet, documents, tables] = origins;
    let listener = |scheme: &str, origin: &SocketAddr, more: &str| {
        format!(
            "[[listener]]\nlisten = \"{scheme}://127.0.0.1:0\"\norigin = \"{scheme}://{origin}\"\n\
             memory_min = \"1MiB\"\n{more}\n"
        )
    };
    [
        "[admin]\nlisten = \"127.0.0.1:0\"\n\
         [storage]\nmemory = \"16MiB\"\nauthorization_lease = \"60min\"\nttl = \"60min\"\n"
            .to_owned(),
        listener("redis", useful, more),
        listener("redis", noisy, ""),
        listener("memcached", quiet, ""),
        listener("mongodb", documents, ""),
        listener("dynamodb", tables, ""),
    ]
    .concat()
}

/// Listeners in the statistics. All shares hold at every moment: bounds, and the memory together.
fn listeners(enroute: &Enroute) -> Vec<Value> {
    let stats: Value =
        serde_json::from_str(&admin(enroute.admin_address(), "/stats").body).expect("JSON");
    let held = stats["storage"]["accounted_bytes"].as_u64().expect("a number");
    assert!(held <= MEMORY, "{held} bytes are held");
    let listeners = stats["listeners"].as_array().expect("a list").clone();
    let shares: Vec<u64> = listeners.iter().map(|listener| share(listener, "bytes")).collect();
    assert!(shares.iter().sum::<u64>() <= MEMORY, "{shares:?}");
    assert!(shares.iter().all(|share| *share >= FLOOR), "{shares:?}");
    listeners
}

fn share(listener: &Value, field: &str) -> u64 {
    listener["share"][field].as_u64().unwrap_or_else(|| panic!("no {field} in {listener}"))
}

fn address(listener: &Value) -> SocketAddr {
    listener["listen"].as_str().and_then(|listen| listen.parse().ok()).expect("an address")
}

/// Waits until `expected` is true of the listeners.
fn wait(enroute: &Enroute, what: &str, expected: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let now = listeners(enroute);
        if expected(&now) {
            return now;
        }
        assert!(started.elapsed() < 2 * PATIENCE, "not {what}: {now:#?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Reads keys, which `next` chooses, until it is told to end.
fn read_on(address: SocketAddr, over: &AtomicBool, mut next: impl FnMut() -> u64) {
    let client = redis::Client::open(format!("redis://{address}/")).expect("a URL");
    let mut client = client.get_connection().expect("the cache listens");
    while !over.load(Relaxed) {
        let mut pipeline = redis::pipe();
        (0..16).for_each(|_| {
            pipeline.get(format!("key:{}", next())).ignore();
        });
        pipeline.exec(&mut client).expect("the cache answers");
    }
}

/// Ends the readers when it is dropped, so that a failed assertion does not wait for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Reads all quiet keys through the cache.
fn read_quiet(client: &mut Raw) {
    for key in 0..QUIET_KEYS {
        client.say(format!("get key:{key}\r\n"));
        client.hear(format!("VALUE key:{key} 0 {VALUE_BYTES}\r\n"));
        client.hear([&[7; VALUE_BYTES][..], b"\r\nEND\r\n"].concat());
    }
}

fn hits(enroute: &Enroute) -> u64 {
    let stats: Value =
        serde_json::from_str(&admin(enroute.admin_address(), "/stats").body).expect("JSON");
    stats["reads"]["hits"].as_u64().expect("a number")
}

#[test]
fn the_useful_listener_gets_the_memory_and_the_quiet_one_keeps_its_floor() {
    let (Some(useful), Some(noisy)) = (filled(USEFUL_KEYS), filled(NOISY_KEYS)) else { return };
    let Some(memcached) = Memcached::start() else { return };
    let mut direct = Raw::connect(memcached.address());
    for key in 0..QUIET_KEYS {
        direct.say(format!("set key:{key} 0 0 {VALUE_BYTES}\r\n"));
        direct.say([&[7; VALUE_BYTES][..], b"\r\n"].concat());
        direct.hear("STORED\r\n");
    }
    let [documents, tables] = [free_address(), free_address()];
    let origins = [useful.address(), noisy.address(), memcached.address(), documents, tables];
    let enroute = Enroute::start_with_config(&["cache"], &configuration(&origins, ""));
    let now = listeners(&enroute);
    assert!(now.iter().all(|listener| share(listener, "bytes") >= 3 * MIB), "equal shares");
    assert_eq!(now[USEFUL]["share"]["why"], "measuring");
    let mut quiet = Raw::connect(address(&now[QUIET]));
    read_quiet(&mut quiet);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&over);
        scope.spawn(|| {
            let mut at = 1_u64;
            read_on(address(&now[USEFUL]), &over, || {
                at = at
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (at >> 33) % USEFUL_KEYS
            });
        });
        scope.spawn(|| {
            let mut at = 0;
            read_on(address(&now[NOISY]), &over, || {
                at = (at + 1) % NOISY_KEYS;
                at
            });
        });
        let all = USEFUL_KEYS * VALUE_BYTES as u64;
        let moved = wait(&enroute, "the useful listener has room for all keys", |now| {
            share(&now[USEFUL], "accounted_bytes") > all
        });
        assert!(share(&moved[USEFUL], "bytes") > 6 * MIB, "{moved:#?}");
        let why = |listener: &Value| listener["share"]["why"].as_str().map(ToOwned::to_owned);
        wait(&enroute, "all of it is enough", |now| why(&now[USEFUL]).as_deref() == Some("enough"));
        drop(ends);
    });
    // The noise has evicted nothing of the quiet listener.
    let before = hits(&enroute);
    read_quiet(&mut quiet);
    assert_eq!(hits(&enroute) - before, QUIET_KEYS);
    let (page, metrics) =
        (admin(enroute.admin_address(), "/"), admin(enroute.admin_address(), "/metrics"));
    assert!(page.body.contains("Shares of the memory"));
    let shown =
        metrics.body.lines().filter(|line| line.starts_with("enroute_share_bytes{")).count();
    assert_eq!(shown, 5, "{}", metrics.body);
    let top = Enroute::start(&["top", "--once", &enroute.admin_address().to_string()]).wait();
    assert_eq!(top.stdout.matches("  share ").count(), 5, "{}{}", top.stdout, top.stderr);

    // A ceiling holds at once, and drops no more than it must.
    enroute.write_config(&configuration(&origins, "memory_max = \"4MiB\""));
    let reloaded = admin_post(enroute.admin_address(), "/reload", "").body;
    assert!(reloaded.contains("memory_max"), "{reloaded}");
    let now = wait(&enroute, "what is held is below the ceiling", |now| {
        share(&now[USEFUL], "accounted_bytes") <= 4 * MIB
    });
    assert!(
        share(&now[USEFUL], "bytes") <= 4 * MIB && share(&now[USEFUL], "items") > 256,
        "{now:#?}"
    );
    assert_eq!(now[USEFUL]["share"]["why"], "ceiling");
}
