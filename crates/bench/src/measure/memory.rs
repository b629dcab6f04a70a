//! Memory cost of items and connections, and the effect of many items on speed.

use std::{thread, time::Duration};

use super::redis::{filled, load, processor, throughput};
use crate::{
    figure::{Figure, Goal, Reading, Rounds},
    load::{Load, Session},
    process::{CLIENT, Cores, SERVER, Server},
    run::{Run, Side},
    stub::VALUE_BYTES,
};

const ITEMS: u64 = 1_000_000;

/// Resident bytes of an item, against redis-server's.
pub(super) fn item(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "item-bytes-64B";
    let redis = run.servers.redis(Cores::Any)?;
    let options = ["--memory", "1GiB", "--ttl", "3600s"];
    let cache = run.servers.cache("redis", redis.address, &options, Cores::Any)?;
    let cost = |server: &Server, empty: f64| -> anyhow::Result<Reading> {
        settle();
        Ok(Reading::new((server.resident_bytes()? - empty) / ITEMS as f64).with("empty", empty))
    };
    run.show("redis-server is filled", 0.0);
    let empty = redis.resident_bytes()?;
    Session::connect(redis.address)?.set_all(ITEMS, VALUE_BYTES)?;
    let peer = cost(&redis, empty)?;
    run.show("the cache is filled", 0.5);
    let empty = cache.resident_bytes()?;
    let mut session = Session::connect(cache.address)?;
    session.get_all(ITEMS, VALUE_BYTES)?;
    let ours = cost(&cache, empty)?;
    // Checks that everything is stored: no request reaches redis-server.
    let asked = redis.cpu_us()?;
    session.get_all(ITEMS, VALUE_BYTES)?;
    let asked = redis.cpu_us()? - asked;
    anyhow::ensure!(asked < 200_000.0, "not all items were held: redis-server was busy {asked} µs");
    let rounds = Rounds { ours: vec![ours], peer: vec![peer] };
    run.keep(name, &rounds)?;
    let figure =
        Figure::compared(name, rounds.medians(), "bytes", "redis-server", Goal::RatioMax(0.7));
    let note =
        "1 M items, 16-byte keys: resident memory full less empty, divided by the items; once";
    Ok(vec![figure.note(note.to_owned())])
}

/// Waits until freed memory is returned to the system.
fn settle() {
    thread::sleep(Duration::from_secs(1));
}

const MANY: u64 = 10_000_000;
const FEW: u64 = 10_000;

/// Hits with ten million items against ten thousand.
pub(super) fn ten_millions(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "hits-10M-over-10k";
    let origin = run.servers.stub(&["origin"], Cores::Any)?;
    let options = ["--workers", "1", "--memory", "4GiB", "--ttl", "14400s"];
    let cache = |keys| -> anyhow::Result<Server> {
        let server = run.servers.cache("redis", origin.address, &options, SERVER)?;
        Session::connect(server.address)?.get_all(keys, VALUE_BYTES)?;
        Ok(server)
    };
    let few = cache(FEW)?;
    run.show("10 M items are filled", 0.1);
    let many = cache(MANY)?;
    run.show("10 M items are read again", 0.2);
    // All of them must be there: the origin would be asked again otherwise.
    let asked = origin.cpu_us()?;
    Session::connect(many.address)?.get_all(MANY, VALUE_BYTES)?;
    let asked = origin.cpu_us()? - asked;
    anyhow::ensure!(asked < 200_000.0, "not all items were held: the origin was busy {asked} µs");
    [(1, name), (16, "hits-10M-over-10k-p16")]
        .into_iter()
        .map(|(pipeline, name)| {
            let rounds = run.interleave(name, |side, round| {
                let (server, keys) = if side == Side::Ours { (&many, MANY) } else { (&few, FEW) };
                let load = Load { keys, ..load(run, server.address, pipeline, VALUE_BYTES, round) };
                throughput(server, &load, CLIENT)
            })?;
            let goal = Goal::RatioMin(0.8);
            let figure = Figure::compared(name, rounds.medians(), "hits/s", "10 k items", goal);
            let note = format!(
                "64 B, uniform, 50 connections, pipeline {pipeline}, one worker; {}",
                processor(&rounds)
            );
            Ok(figure.note(note))
        })
        .collect()
}

const CONNECTIONS: u64 = 10_000;

/// Resident bytes of a connection that has had a hit and is idle.
pub(super) fn idle_connections(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "idle-connection-bytes";
    let files = crate::open_files();
    // Each has two sockets in the cache: its client's and its origin's.
    let connections = CONNECTIONS.min((files.saturating_sub(100)) / 2);
    let redis = run.servers.redis(Cores::Any)?;
    let cache = filled(run, &redis, &[], 100, VALUE_BYTES, Cores::Any)?;
    settle();
    let empty = cache.resident_bytes()?;
    let mut sessions = Vec::new();
    for number in 0..connections {
        let mut session = Session::connect(cache.address)?;
        session.get(number % 100, VALUE_BYTES)?;
        sessions.push(session);
        if number % 2_000 == 0 {
            let what = format!("{number} of {connections} connections");
            run.show(&what, number as f64 / connections as f64);
        }
    }
    settle();
    let full = cache.resident_bytes()?;
    // None was closed during the measurement.
    for session in &mut sessions {
        session.get(0, VALUE_BYTES)?;
    }
    let reading = Reading::new((full - empty) / connections as f64)
        .with("empty", empty)
        .with("full", full)
        .with("connections", connections as f64);
    run.keep(name, &reading)?;
    let figure = Figure::alone(name, reading.value, "bytes", 20_480.0);
    let limit = if connections < CONNECTIONS {
        format!(" (this machine allows {files} open files)")
    } else {
        String::new()
    };
    let note = format!(
        "{connections} connections{limit}, each with its own to the origin, one hit on each before"
    );
    Ok(vec![figure.note(note)])
}
