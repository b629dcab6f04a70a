//! Connections, pipeline depth, frame size and buffered bytes each have a limit, and a reply of
//! 200 MB to a client that does not read costs no more than its buffers.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::raw::{CHECK, RIGHTS, Raw, accept_client};

#[test]
fn further_clients_are_turned_away() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "[limits]\nconnections_max = 2\n");
    let mut clients = [Raw::connect(cache.address()), Raw::connect(cache.address())];
    clients.iter_mut().for_each(|client| client.ask("PING", "+PONG\r\n"));
    Raw::connect(cache.address()).hear_end();
    assert!(cache.log_line("connection rejected").contains("limit=2"));
    let [left, mut stays] = clients;
    drop(left);
    cache.statistics_once(|statistics| statistics["connections"] == 1.0);
    Raw::connect(cache.address()).ask("PING", "+PONG\r\n");
    stays.ask("PING", "+PONG\r\n");
}

#[test]
fn a_pipeline_goes_to_the_origin_in_pieces() {
    const DEPTH: usize = 4;
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = format!("[limits]\npipeline_max = {DEPTH}\n");
    let cache = Cache::start("redis", origin.local_addr().expect("bound"), &options);
    let mut client = Raw::connect(cache.address());
    client.say("PING\r\n");
    let mut origin = Raw::from(accept_client(&origin));
    origin.hear(format!("{CHECK}PING\r\n"));
    origin.say(format!("{RIGHTS}+PONG\r\n"));
    client.hear("+PONG\r\n");
    client.say("PING\r\n".repeat(3 * DEPTH));
    for _ in 0..3 {
        origin.hear("PING\r\n".repeat(DEPTH));
        assert!(origin.is_open(), "more requests arrived than may be outstanding");
        origin.say("+PONG\r\n".repeat(DEPTH));
        client.hear("+PONG\r\n".repeat(DEPTH));
    }
}

#[test]
fn a_frame_at_the_limit_passes_and_a_larger_one_does_not() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "[limits]\nframe_bytes_max = \"100KB\"\n");
    let set = |bytes: usize| {
        format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n{}\r\n", "v".repeat(bytes))
    };
    let around = set(0).len() + 4;
    let mut client = Raw::connect(cache.address());
    client.say(set(100_000 - around));
    client.hear("+OK\r\n");
    client.say(&set(100_001)[..40]);
    assert!(client.hear_line().starts_with("-ERR Protocol error"));
    client.hear_end();
}

#[test]
fn a_reply_of_200_megabytes_to_a_client_that_does_not_read_stays_at_the_origin() {
    const REPLY_BYTES: usize = 200_000_000;
    let sent = Arc::new(AtomicUsize::new(0));
    let origin = large_reply(REPLY_BYTES, Arc::clone(&sent));
    let cache = Cache::start("redis", origin, "");
    let mut client = Raw::connect(cache.address());
    let before = resident_bytes(&cache);
    client.say("GET k\r\n");
    // The origin blocks when its output is not read.
    let stuck = wait_until_still(&sent);
    let grown = resident_bytes(&cache).saturating_sub(before);
    eprintln!("the origin sent {stuck} bytes; the cache grew by {grown}");
    assert!(stuck < REPLY_BYTES / 4, "{stuck} bytes left the origin");
    assert!(grown < 16_000_000, "the cache grew by {grown} bytes");

    // Other clients are served at the same time, and the reply arrives completely once the client
    // reads it, even slowly.
    let mut heard = 0;
    let mut buffer = vec![0; 300_000];
    client.hear(format!("${REPLY_BYTES}\r\n"));
    let mut grown = 0;
    while heard < REPLY_BYTES + 2 {
        heard += client.stream().read(&mut buffer).expect("more of the reply");
        grown = grown.max(resident_bytes(&cache).saturating_sub(before));
    }
    assert!(grown < 16_000_000, "the cache grew by {grown} bytes");
}

#[test]
fn requests_to_an_origin_that_does_not_read_stay_with_the_client() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = "[limits]\nbuffered_bytes_max = \"256KiB\"\n";
    let cache = Cache::start("redis", origin.local_addr().expect("bound"), options);
    let client = Raw::connect(cache.address());
    let before = resident_bytes(&cache);
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let (done, ended) = mpsc::channel();
    let mut stream = client.stream().try_clone().expect("a descriptor");
    let writer = thread::spawn(move || {
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{}\r\n", "v".repeat(100_000));
        while stream.write_all(set.as_bytes()).is_ok() {
            counter.fetch_add(set.len(), Ordering::Relaxed);
        }
        let _ = done.send(());
    });
    let _stays = accept_client(&origin);
    let stuck = wait_until_still(&sent);
    let grown = resident_bytes(&cache).saturating_sub(before);
    eprintln!("the client sent {stuck} bytes; the cache grew by {grown}");
    assert!(grown < 8_000_000, "the cache grew by {grown} bytes");
    client.stream().shutdown(std::net::Shutdown::Both).expect("an open connection");
    ended.recv_timeout(PATIENCE).expect("the writer ends");
    writer.join().expect("the writer ends well");
}

#[test]
fn hits_to_a_client_that_does_not_read_stay_in_storage() {
    let Some(redis) = Redis::start() else { return };
    let options = "[limits]\nbuffered_bytes_max = \"256KiB\"\n";
    let cache = Cache::start("redis", redis.address(), options);
    let mut client = Raw::connect(cache.address());
    let value = "v".repeat(10_000);
    client.ask(&format!("SET k {value}"), "+OK\r\n");
    let reply = format!("$10000\r\n{value}\r\n");
    while cache.hits() < 1.0 {
        client.ask("GET k", &reply);
    }
    let before = resident_bytes(&cache);
    client.say("GET k\r\n".repeat(10_000));
    let hits = AtomicUsize::new(0);
    wait_until(|| {
        let now = cache.hits() as usize;
        hits.swap(now, Ordering::Relaxed) == now
    });
    let grown = resident_bytes(&cache).saturating_sub(before);
    assert!(grown < 8_000_000, "the cache grew by {grown} bytes");
    for _ in 0..10_000 {
        client.hear(&reply);
    }
}

/// An origin that answers any input with one large value; `sent` is the number of bytes written.
fn large_reply(bytes: usize, sent: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let mut connection = accept_client(&listener);
        let _ = connection.read(&mut [0; 100]);
        let _ = write!(connection, "{RIGHTS}${bytes}\r\n");
        let piece = vec![b'v'; 100_000];
        for _ in 0..bytes / piece.len() {
            if connection.write_all(&piece).is_err() {
                return;
            }
            sent.fetch_add(piece.len(), Ordering::Relaxed);
        }
        let _ = connection.write_all(b"\r\n");
        // The reply to PTTL.
        let _ = connection.write_all(b":-1\r\n");
        let _ = connection.read(&mut [0; 100]);
    });
    address
}

/// Waits until the number stops growing; returns it.
fn wait_until_still(number: &AtomicUsize) -> usize {
    let mut then = (number.load(Ordering::Relaxed), Instant::now());
    wait_until(|| {
        let now = number.load(Ordering::Relaxed);
        if now != then.0 || now == 0 {
            then = (now, Instant::now());
        }
        // There is no event for this, so 300 ms without growth count as still.
        then.1.elapsed() > Duration::from_millis(300)
    });
    then.0
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "it never came");
        thread::sleep(Duration::from_millis(10));
    }
}

fn resident_bytes(cache: &Cache) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", cache.process().id()));
    let status = status.expect("the cache runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
    kilobytes << 10
}
