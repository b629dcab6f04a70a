//! A client that violates the protocol repeatedly, on a new connection each time, causes one log
//! line per interval: in the cache, the database and the state agent.

use std::{net::SocketAddr, time::Instant};

use crate::support::{
    database::Database, enroute::Cache, process::Process, raw::Raw, state::Agent,
};

const CONNECTIONS: u32 = 1_000;
/// Seconds between two log lines about one cause.
const PAUSE: u64 = 10;

/// Violates the protocol on this many connections, and checks the log of `process`.
fn offend(process: &Process, listener: SocketAddr) {
    let began = Instant::now();
    for _ in 0..CONNECTIONS {
        let mut client = Raw::connect(listener);
        client.say("*1\r\n$x\r\n");
        client.hear_bytes_until_end();
    }
    let first = process.stderr_line("closing: ").expect("a line");
    let most = 1 + began.elapsed().as_secs() / PAUSE;
    let log = process.stderr();
    let lines = log.lines().filter(|line| line.contains("closing: ")).count();
    assert!(lines as u64 <= most, "{lines} lines in {:?}: {log}", began.elapsed());
    assert!(first.contains("times=1"), "{first}");
}

/// An address on which nothing listens; it is never used.
fn nowhere() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

#[test]
fn of_the_cache() {
    let cache = Cache::start("redis", nowhere(), "");
    offend(cache.process(), cache.address());
}

#[test]
fn of_the_database() {
    let database = Database::start();
    offend(database.process(), database.address());
}

#[test]
fn of_the_state_agent() {
    let agent = Agent::start(&[nowhere()]);
    offend(agent.process(), agent.address());
}
