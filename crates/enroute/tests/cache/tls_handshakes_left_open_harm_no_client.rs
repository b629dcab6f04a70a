//! Incomplete handshakes are closed, use a bounded number of descriptors, and do not affect
//! connected clients; a client without TLS gets an error that says so.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use crate::support::{
    enroute::Cache,
    process::{PATIENCE, raise_open_files},
    raw::Raw,
    secured::{Secured, certificates, redis, tls, trusting},
};

/// The limit stated in `docs/guide/configuration.md`.
const INCOMPLETE_MAX: usize = 1_024;

#[test]
fn handshakes_left_open_are_bounded_and_closed() {
    let Some(workshop) = certificates() else { return };
    let Some((origin, _)) = redis(&workshop, "localhost", false) else { return };
    raise_open_files();
    let cache = Cache::start_all(&[("redis", origin.address(), &tls(&workshop))], "workers = 1\n");
    let config = trusting(&workshop, "authority", None);
    let mut witness = Secured::connect(cache.address(), &config).expect("a handshake");
    witness.ask("SET key value", "+OK\r\n");
    let descriptors = || {
        let open = fs::read_dir(format!("/proc/{}/fd", cache.process().id()));
        open.expect("a process").count()
    };
    let before = (descriptors(), cache.process().resident_bytes());
    let begun: Vec<TcpStream> = (0..2 * INCOMPLETE_MAX).map(|_| begin(cache.address())).collect();
    let started = Instant::now();
    while descriptors() < before.0 + INCOMPLETE_MAX - 8 {
        assert!(started.elapsed() < PATIENCE, "{} descriptors", descriptors());
        witness.ask("GET key", "$5\r\nvalue\r\n");
    }
    for _ in 0..200 {
        witness.ask("GET key", "$5\r\nvalue\r\n");
        let now = descriptors();
        assert!(now <= before.0 + INCOMPLETE_MAX + 8, "{now} descriptors, {before:?}");
    }
    let grown = cache.process().resident_bytes().saturating_sub(before.1);
    eprintln!("{} bytes for each incomplete handshake", grown / INCOMPLETE_MAX);
    assert!(grown < 32 << 20, "{grown} bytes");
    // A later client is served once they are closed.
    let mut late = Secured::connect(cache.address(), &config).expect("a handshake");
    late.ask("GET key", "$5\r\nvalue\r\n");
    cache.log_line("no complete handshake within 10s");
    drop(begun);
    witness.ask("GET key", "$5\r\nvalue\r\n");
}

/// The beginning of a ClientHello.
fn begin(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[0x5a; 100]].concat();
    stream.write_all(&hello).expect("a new connection");
    stream
}

#[test]
fn a_client_without_tls_is_named_and_answered() {
    let Some(workshop) = certificates() else { return };
    let Some((origin, _)) = redis(&workshop, "localhost", false) else { return };
    let cache = Cache::start_all(&[("redis", origin.address(), &tls(&workshop))], "");
    let mut client = Raw::connect(cache.address());
    client.say("*1\r\n$4\r\nPING\r\n");
    let answer = client.hear_bytes_until_end();
    assert!(answer.starts_with(b"-ERR expected TLS, got Redis"), "{answer:?}");
    let line = cache.log_line("expected TLS, got Redis");
    assert!(line.contains(&cache.address().to_string()), "{line}");
    assert_eq!(cache.statistics()["connections"], 0.0);
}
