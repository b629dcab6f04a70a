//! Storage grows, shrinks and is emptied while the real binary serves: through HTTP, and by SIGHUP
//! after a change of the configuration file.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Instant;
use std::{fs, thread};

use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::{Enroute, admin, admin_post};
use crate::support::origins::Redis;
use crate::support::process::{PATIENCE, Process};
use serde_json::Value;

/// Enough keys that no shard has fewer of them than its share of any limit here.
const KEYS: u32 = 3_000;

fn client(address: SocketAddr) -> redis::Connection {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    client.get_connection().unwrap()
}

fn read_all(client: &mut redis::Connection, keys: u32) {
    for key in 0..keys {
        let value: u32 = redis::cmd("GET").arg(key).query(client).unwrap();
        assert_eq!(value, key);
    }
}

/// A Redis with the keys that are read here, written bypassing the cache.
fn origin() -> Option<Redis> {
    let redis = Redis::start()?;
    let mut direct = client(redis.address());
    for key in 0..KEYS {
        redis::cmd("SET").arg(key).arg(key).exec(&mut direct).unwrap();
    }
    Some(redis)
}

fn storage(at: SocketAddr) -> Value {
    let stats: Value = serde_json::from_str(&admin(at, "/stats").body).unwrap();
    stats["storage"].clone()
}

/// Waits until `right` is true of the storage statistics.
fn storage_becomes(at: SocketAddr, right: impl Fn(&Value) -> bool) {
    let started = Instant::now();
    while !right(&storage(at)) {
        assert!(started.elapsed() < PATIENCE, "still {:#}", storage(at));
        thread::yield_now();
    }
}

#[test]
fn limits_change_over_http() {
    let Some(redis) = origin() else { return };
    let origin = format!("redis://{}", redis.address());
    let arguments = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    let enroute = Enroute::start(&[&arguments[..], &["--admin", "127.0.0.1:0"]].concat());
    let at = enroute.admin_address();
    let mut client = client(enroute.listen_address("redis"));
    read_all(&mut client, KEYS);
    // A key is stored a moment after its reply, because its TTL is queried then.
    storage_becomes(at, |storage| storage["items"] == KEYS);

    let answer = admin_post(at, "/storage", r#"{"items": 40}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let limits: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(limits, serde_json::json!({"items_max": 40, "bytes_max": 64 << 20}));
    storage_becomes(at, |storage| storage["items"] == 40 && storage["items_max"] == 40);
    read_all(&mut client, KEYS);
    storage_becomes(at, |storage| storage["items"] == 40);

    let answer = admin_post(at, "/storage", r#"{"items": 300, "memory": "8MiB"}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    read_all(&mut client, KEYS);
    storage_becomes(at, |storage| storage["items"] == 300 && storage["bytes_max"] == 8 << 20);

    assert_eq!(admin_post(at, "/flush", "").status, 200);
    assert_eq!(storage(at)["items"], 0);
    read_all(&mut client, 10);
    storage_becomes(at, |storage| storage["items"] == 10);
}

#[test]
fn limits_change_by_sighup() {
    let Some(redis) = origin() else { return };
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("enroute.toml");
    let write = |capacity: &str, workers: u32| {
        let text = format!(
            "workers = {workers}\n[storage]\ncapacity = {capacity}\n[admin]\n\
             listen = \"127.0.0.1:0\"\n[[listener]]\nlisten = \"redis://127.0.0.1:0\"\n\
             origin = \"redis://{}\"\n",
            redis.address()
        );
        fs::write(&file, text).unwrap();
    };
    write("200", 1);
    let process = Process::start(
        Command::new(env!("CARGO_BIN_EXE_enroute"))
            .args(["--log", "info", "cache", "--config"])
            .arg(&file),
    );
    let said = |start: &str| process.stderr_line(start).unwrap().replace(start, "");
    let at: SocketAddr = said("admin: http://").trim_end_matches('/').parse().unwrap();
    let listen: SocketAddr = said("redis://").split(' ').next().unwrap().parse().unwrap();
    let mut client = client(listen);
    read_all(&mut client, 300);
    storage_becomes(at, |storage| storage["items"] == 200);

    write("30", 2);
    process.signal("HUP");
    storage_becomes(at, |storage| storage["items"] == 30 && storage["items_max"] == 30);
    assert!(process.stderr_line("workers changed in the file; restart to apply it").is_some());

    write("\"many\"", 2);
    process.signal("HUP");
    let error = process.stderr_line("SIGHUP: reload failed").unwrap();
    assert!(error.contains("enroute.toml:3:12"), "{error}");
    assert_eq!(storage(at)["items_max"], 30);
    // The connection is still open.
    read_all(&mut client, 10);
}
