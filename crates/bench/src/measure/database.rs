//! `enroute db` beside redis-server, beside RocksDB, beside bare reads of the disk, and beside the
//! paper.

mod bare;
pub(super) mod cold;
pub(super) mod files;
pub(super) mod larger;
pub(super) mod process;
pub(super) mod table_5;
pub(super) mod zipf;

use std::{thread, time::Duration};

use super::redis::{processor, throughput};
use crate::{
    figure::{Figure, Goal, Reading},
    load::{Draw, Load, Operation, Session},
    process::{CLIENT, Cores, SERVER, Server},
    protocol::Protocol,
    run::{Run, Side},
};

pub(super) const KEYS: u64 = 10_000;
pub(super) const MANY_KEYS: u64 = 1_000_000;
const CONNECTIONS: usize = 50;
/// Bytes of the values in the paper.
const PAGE: usize = 4_096;

pub(super) fn load(
    run: &Run,
    server: &Server,
    operation: Operation,
    pipeline: usize,
    seed: u64,
) -> Load {
    Load {
        protocol: Protocol::Redis,
        operation,
        draw: Draw::Evenly,
        address: server.address,
        connections: CONNECTIONS,
        pipeline,
        keys: KEYS,
        value_bytes: 64,
        duration: run.round(),
        seed,
        rate: None,
    }
}

pub(super) fn get_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "get-p1", Operation::Get, 1, KEYS)
}

pub(super) fn get_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "get-p16", Operation::Get, 16, KEYS)
}

pub(super) fn set_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "set-p1", Operation::Set, 1, KEYS)
}

pub(super) fn set_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "set-p16", Operation::Set, 16, KEYS)
}

/// Measures with a number of keys at which neither side's index stays in the processor's caches.
pub(super) fn many_keys(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let mut figures = in_memory(run, "get-p16-1M", Operation::Get, 16, MANY_KEYS)?;
    figures.extend(in_memory(run, "set-p16-1M", Operation::Set, 16, MANY_KEYS)?);
    Ok(figures)
}

/// Both on a core of their own, everything in memory; redis-server keeps nothing on disk, ours
/// does. What changes data stands beside a redis-server that promises what ours does, too.
fn in_memory(
    run: &Run,
    name: &str,
    operation: Operation,
    pipeline: usize,
    keys: u64,
) -> anyhow::Result<Vec<Figure>> {
    let database = run.servers.database(&["--workers", "1", "--memory", "512MiB"], SERVER)?;
    Session::connect(database.server.address)?.set_all(keys, 64)?;
    let beside = |name: &str, peer: &str, options: &[&str]| -> anyhow::Result<Figure> {
        let redis = run.servers.redis_with(options, SERVER)?;
        Session::connect(redis.address)?.set_all(keys, 64)?;
        let rounds = run.interleave(name, |side, round| {
            let server = if side == Side::Ours { &database.server } else { &redis };
            let load = Load { keys, ..load(run, server, operation, pipeline, round) };
            throughput(server, &load, CLIENT)
        })?;
        let unit = if operation == Operation::Get { "GETs/s" } else { "SETs/s" };
        let figure = Figure::compared(name, rounds.medians(), unit, peer, Goal::RatioMin(1.0));
        Ok(figure.note(processor(&rounds)))
    };
    let mut figures = vec![beside(name, "redis-server that keeps nothing", &[])?];
    if operation == Operation::Set {
        let name = format!("{name}-everysec");
        let peer = "redis-server with appendfsync everysec";
        figures.push(beside(&name, peer, &["--appendonly", "yes"])?);
    }
    Ok(figures)
}

/// Two workers beside redis-server, nothing pinned. On two cores the client takes one of them, so
/// the figure is what the processor time of a GET says.
pub(super) fn two_threads(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let redis = run.servers.redis(Cores::Any)?;
    let database = run.servers.database(&["--workers", "2", "--memory", "512MiB"], Cores::Any)?;
    for server in [&redis, &database.server] {
        Session::connect(server.address)?.set_all(KEYS, 64)?;
    }
    let name = "two-threads";
    let rounds = run.interleave(name, |side, round| {
        let ours = side == Side::Ours;
        let server = if ours { &database.server } else { &redis };
        let reading =
            throughput(server, &load(run, server, Operation::Get, 16, round), Cores::Any)?;
        let threads = if ours { 2.0 } else { 1.0 };
        let rate = reading.value;
        let implied = threads * 1e6 / reading.others["server_us"];
        Ok(Reading { value: implied, ..reading }.with("gets_per_second", rate))
    })?;
    let (ours, theirs) = rounds.medians_of("gets_per_second");
    let unit = "GETs/s that the threads' processor time allows";
    let figure =
        Figure::compared(name, rounds.medians(), unit, "redis-server", Goal::RatioMin(1.0));
    let note = format!(
        "64 B, pipeline 16; with the client on the same two cores {ours:.0} against {theirs:.0} GETs/s; {}",
        processor(&rounds)
    );
    Ok(vec![figure.note(note)])
}

fn rescale(session: &mut Session, bytes: u64) -> anyhow::Result<()> {
    let bytes = bytes.to_string();
    session.command(&["RESCALE", &bytes])
}

/// Waits until a rescale has finished.
fn settle(_: &Server) -> anyhow::Result<()> {
    thread::sleep(Duration::from_millis(500));
    Ok(())
}
