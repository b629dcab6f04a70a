//! Hits of memcached clients, beside memcached.

use anyhow::ensure;

use super::redis::{self, processor, throughput};
use crate::{
    figure::{Figure, Goal},
    load::{Load, Session},
    process::{CLIENT, SERVER},
    protocol::Protocol,
    run::{Run, Side},
    stub,
};

const KEYS: u64 = 10_000;
/// Processor time of the origin in a round in which it answers no read, in microseconds.
const IDLE_US_MAX: f64 = 100_000.0;

pub(super) fn get_64_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    get(run, "memcached-hits", 1, 1.0)
}

pub(super) fn get_64_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    get(run, "memcached-hits-p16", 16, 1.3)
}

/// Hits against memcached's own with one thread, either on a core of its own.
fn get(run: &Run, name: &str, pipeline: usize, goal: f64) -> anyhow::Result<Vec<Figure>> {
    let connect = |address| Session::connect_by(Protocol::Memcached, address);
    let memcached = run.servers.memcached(SERVER)?;
    connect(memcached.address)?.set_all(KEYS, stub::VALUE_BYTES)?;
    let options = ["--workers", "1", "--memory", "2GiB", "--ttl", "3600s"];
    let cache = run.servers.cache("memcached", memcached.address, &options, SERVER)?;
    connect(cache.address)?.get_all(KEYS, stub::VALUE_BYTES)?;
    let rounds = run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &cache } else { &memcached };
        let load = redis::load(run, server.address, pipeline, stub::VALUE_BYTES, round);
        let before_us = memcached.cpu_us()?;
        let reading = throughput(server, &Load { protocol: Protocol::Memcached, ..load }, CLIENT)?;
        let asked_us = memcached.cpu_us()? - before_us;
        ensure!(
            side != Side::Ours || asked_us < IDLE_US_MAX,
            "not all hits: memcached was busy for {asked_us} µs"
        );
        Ok(reading)
    })?;
    let peer = "memcached -t 1";
    let figure = Figure::compared(name, rounds.medians(), "hits/s", peer, Goal::RatioMin(goal));
    let note = format!("64 B, 50 connections, pipeline {pipeline}; {}", processor(&rounds));
    Ok(vec![figure.note(note)])
}
