//! The resident memory of `enroute cache` stays within `memory` and the overhead that the guide
//! states, whatever clients send, request or leave unread; other clients are served throughout.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::enroute::Cache;
use crate::support::greedy::{bulk, insist};
use crate::support::origins::Redis;
use crate::support::process::{PATIENCE, at_once};
use crate::support::raw::Raw;
use flate2::{Compression, write::ZlibEncoder};

const MIB: usize = 1 << 20;
const MEMORY: usize = 16 * MIB;
/// The limit stated in `docs/guide/configuration.md`: `memory` plus a sixteenth of it and 96 MiB.
const BOUND: usize = MEMORY + MEMORY / 16 + 96 * MIB;
const OPTIONS: &str = "[storage]\nmemory = \"16MiB\"\n";

fn check(cache: &Cache, attack: &str) {
    let peak = cache.process().peak_bytes();
    eprintln!("{attack}: peak {} MiB, limit {} MiB", peak / MIB, BOUND / MIB);
    assert!(peak <= BOUND, "{attack}: {peak} bytes resident, expected at most {BOUND}");
}

/// An origin that accepts connections and neither reads nor writes.
fn silent_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let mut kept = Vec::new();
        kept.extend(listener.incoming());
    });
    address
}

#[test]
fn strangers_that_send_one_huge_value_each() {
    let Some(redis) = Redis::start_with(&["--requirepass", "secret"]) else { return };
    let cache = Cache::start("redis", redis.address(), OPTIONS);
    let _open = at_once(6, |_| insist(cache.address(), bulk(300)));
    check(&cache, "six values of 300 MB from clients that are not logged in");
    let mut witness = Raw::connect(cache.address());
    witness.ask("AUTH secret", "+OK\r\n");
    witness.ask("PING", "+PONG\r\n");
}

#[test]
fn huge_values_for_an_origin_that_does_not_read() {
    let cache = Cache::start("redis", silent_origin(), OPTIONS);
    let _open = at_once(6, |_| insist(cache.address(), bulk(300)));
    check(&cache, "six values of 300 MB to an origin that does not read");
}

#[test]
fn values_that_are_all_but_whole_and_replies_that_are_not_read() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), OPTIONS);
    let mut witness = Raw::connect(cache.address());
    witness.ask("SET small v", "+OK\r\n");
    // Just short enough to be buffered until it is complete.
    let unfinished = at_once(150, |_| {
        let mut client = Raw::connect(cache.address());
        client.ask("PING", "+PONG\r\n");
        let mut stream = client.stream().try_clone().expect("a descriptor");
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let head = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1040000\r\n";
        let _ =
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&[b'v'; 1_039_000]));
        stream
    });
    check(&cache, "150 values of 1 MB that are not whole");
    witness.ask("GET small", "$1\r\nv\r\n");
    let line = cache.log_line("closing the client with the largest buffers");
    assert!(line.contains("of all clients, whose limit"), "{line}");
    drop(unfinished);

    let value = "v".repeat(1_000_000);
    // While the buffers of those clients are still counted, the next large client is closed.
    let began = Instant::now();
    let stored = || {
        let client = redis::Client::open(format!("redis://{}", cache.address())).expect("a URL");
        let mut writer = client.get_connection()?;
        redis::cmd("SET").arg("large").arg(&value).query::<()>(&mut writer)
    };
    while let Err(error) = stored() {
        assert!(began.elapsed() < PATIENCE, "a value of 1 MB is not stored: {error}");
    }
    let _unread = at_once(100, |_| {
        insist(cache.address(), std::iter::once("GET large\r\n".repeat(100).into_bytes()))
    });
    check(&cache, "100 clients that ask for 100 MB each and read nothing");
    witness.ask("GET small", "$1\r\nv\r\n");
}

#[test]
fn deep_pipelines_whose_replies_never_come() {
    let cache = Cache::start("redis", silent_origin(), OPTIONS);
    let _open = at_once(40, |number| {
        let value = "v".repeat(2_000);
        let set = |at: usize| {
            format!("*3\r\n$3\r\nSET\r\n$9\r\n{number:04}{at:05}\r\n$2000\r\n{value}\r\n")
        };
        insist(cache.address(), (0..4_000).map(|at| set(at).into_bytes()))
    });
    check(&cache, "40 pipelines of 4,000 values of 2 kB");
}

#[test]
fn replies_that_must_be_withheld() {
    let Some(redis) = Redis::start() else { return };
    let mut direct = redis.connection();
    let () =
        redis::cmd("SETRANGE").arg("huge").arg(100_000_000).arg("x").query(&mut direct).unwrap();
    let cache = Cache::start("redis", redis.address(), OPTIONS);
    let mut witness = Raw::connect(cache.address());
    witness.ask("SET small v", "+OK\r\n");
    while cache.hits() < 1.0 {
        witness.ask("GET small", "$1\r\nv\r\n");
    }
    let _ended = at_once(4, |_| {
        let mut stream = insist(cache.address(), std::iter::once(b"MGET small huge\r\n".to_vec()));
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut heard = vec![0; 1 << 20];
        while matches!(stream.read(&mut heard), Ok(1..)) {}
        stream
    });
    check(&cache, "four replies of 100 MB of which a part is stored");
    witness.ask("GET small", "$1\r\nv\r\n");
}

#[test]
fn compressed_frames_that_inflate_a_thousandfold() {
    let cache = Cache::start("mongodb", silent_origin(), OPTIONS);
    const INFLATED: usize = 47_000_000;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&vec![0; INFLATED]).expect("memory");
    let packed = zlib.finish().expect("memory");
    let length = 25 + packed.len() as i32;
    let mut frame = Vec::new();
    for field in [length, 1, 0, 2012, 2013, INFLATED as i32] {
        frame.extend_from_slice(&field.to_le_bytes());
    }
    frame.push(2);
    frame.extend_from_slice(&packed);
    let _open = at_once(30, |_| insist(cache.address(), (0..20).map(|_| frame.clone())));
    check(&cache, "600 frames of 48 kB that inflate to 47 MB");
}
