//! Hits and misses of Redis clients, beside redis-server and twemproxy.

use std::net::SocketAddr;

use crate::{
    figure::{Figure, Goal, Reading, Rounds, median},
    load::{Draw, Load, Operation, Session},
    process::{self, CLIENT, Cores, SERVER, Server},
    protocol::Protocol,
    run::{Run, Side},
    stub,
};

const KEYS: u64 = 10_000;
const CONNECTIONS: usize = 50;

pub(super) fn get_64_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    get(run, "redis-get-64B-p1", 64, 1, 1.0)
}

pub(super) fn get_4k_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    get(run, "redis-get-4KiB-p1", 4096, 1, 1.0)
}

pub(super) fn get_64_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    get(run, "redis-get-64B-p16", 64, 16, 1.3)
}

pub(super) fn get_4k_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    get(run, "redis-get-4KiB-p16", 4096, 16, 1.3)
}

/// Hits against redis-server's own, either on a core of its own.
fn get(
    run: &Run,
    name: &str,
    value_bytes: usize,
    pipeline: usize,
    goal: f64,
) -> anyhow::Result<Vec<Figure>> {
    let redis = run.servers.redis(SERVER)?;
    let cache = filled(run, &redis, &["--workers", "1"], KEYS, value_bytes, SERVER)?;
    let rounds = run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &cache } else { &redis };
        throughput(server, &load(run, server.address, pipeline, value_bytes, round), CLIENT)
    })?;
    let figure =
        Figure::compared(name, rounds.medians(), "hits/s", "redis-server", Goal::RatioMin(goal));
    let mut note = processor(&rounds);
    if value_bytes == stub::VALUE_BYTES {
        note = format!("{note}; {}", beside_the_least(run, name, &cache, pipeline, &rounds)?);
    }
    Ok(vec![figure.note(note)])
}

/// The cache beside a server that looks nothing up: what is left to gain without leaving the
/// kernel's TCP, and by how much the peer of `rounds` could be outdone at all.
fn beside_the_least(
    run: &Run,
    name: &str,
    cache: &Server,
    pipeline: usize,
    rounds: &Rounds,
) -> anyhow::Result<String> {
    let least = run.servers.stub(&["origin"], SERVER)?;
    let beside = run.interleave(&format!("{name}-least"), |side, round| {
        let server = if side == Side::Ours { cache } else { &least };
        throughput(server, &load(run, server.address, pipeline, stub::VALUE_BYTES, round), CLIENT)
    })?;
    let (ours, least) = beside.medians_of("server_us");
    let (_, peer) = rounds.medians_of("server_us");
    Ok(format!(
        "beside an epoll loop that looks nothing up: {ours:.2} against {least:.2} µs; that loop \
         could serve {:.2} × what the peer does",
        peer / least
    ))
}

/// Hits against twemproxy before redis-server: what answers on one core, the client on the other.
pub(super) fn nutcracker(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "redis-get-vs-nutcracker";
    let ours = |redis: &Server, cores| filled(run, redis, &["--workers", "1"], KEYS, 64, cores);
    let apart = proxied_hits(run, name, SERVER, CLIENT, ours)?;
    let free = proxied_hits(run, "redis-get-vs-nutcracker-free", Cores::Any, Cores::Any, ours)?;
    let least = |_: &Server, cores| run.servers.stub(&["origin"], cores);
    let least = proxied_hits(run, "redis-get-vs-nutcracker-least", SERVER, CLIENT, least)?;
    let peer = "nutcracker before redis-server";
    let figure = Figure::compared(name, apart.medians(), "hits/s", peer, Goal::RatioMin(2.0));
    let (hits, proxied) = free.medians();
    let (answers, behind) = least.medians();
    let note = format!(
        "64 B, 50 connections, no pipeline; what answers on one core (the cache; nutcracker and \
         redis-server), the client on the other; {}; an epoll loop that looks nothing up, in the \
         cache's place: {answers:.0} against {behind:.0} answers/s, ratio {:.3}; nothing pinned, \
         where the client takes as much of two cores as all servers do: {hits:.0} against \
         {proxied:.0} hits/s, ratio {:.3}",
        processor(&apart),
        answers / behind,
        hits / proxied
    );
    Ok(vec![figure.note(note)])
}

/// Measures the servers that `start` starts, compared with nutcracker, both in front of one
/// redis-server.
fn proxied_hits(
    run: &Run,
    name: &str,
    servers: Cores,
    client: Cores,
    start: impl FnOnce(&Server, Cores) -> anyhow::Result<Server>,
) -> anyhow::Result<Rounds> {
    let redis = run.servers.redis(servers)?;
    Session::connect(redis.address)?.set_all(KEYS, 64)?;
    let started = start(&redis, servers)?;
    let proxy = run.servers.nutcracker(redis.address, servers)?;
    run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &started } else { &proxy };
        throughput(server, &load(run, server.address, 1, 64, round), client)
    })
}

/// Misses against asking directly, on one connection.
pub(super) fn miss(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let apart = misses(run, "redis-miss-p50", SERVER, CLIENT)?;
    let free = misses(run, "redis-miss-p50-free", Cores::Any, Cores::Any)?;
    let proxied = proxied(run)?;
    let name = "redis-miss-p50";
    let figure = Figure::compared(name, apart.medians(), "µs", "redis-server", Goal::RatioMax(1.4));
    let (miss, direct) = free.medians();
    let note = format!(
        "one connection, 64 B, every read of a key never read before; servers on one core, client on \
         the other; nothing pinned: {miss:.1} against {direct:.1} µs, ratio {:.3}; for comparison \
         through nutcracker, pinned likewise: {proxied:.1} µs, ratio {:.3}",
        miss / direct,
        proxied / apart.medians().1
    );
    Ok(vec![figure.note(note)])
}

fn misses(run: &Run, name: &str, servers: Cores, client: Cores) -> anyhow::Result<Rounds> {
    let count: u64 = if run.short { 5_000 } else { 15_000 };
    let redis = run.servers.redis(servers)?;
    Session::connect(redis.address)?.set_all(count * run.rounds as u64, 64)?;
    let cache = run.servers.cache("redis", redis.address, &["--workers", "1"], servers)?;
    run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &cache } else { &redis };
        let mut session = Session::connect(server.address)?;
        let number = |index| round * count + index;
        let taken = process::on(client, || session.round_trips(count, 64, number))??;
        Ok(percentiles(&taken))
    })
}

/// Returns the duration of a read through twemproxy, which stores nothing: the price of any hop, in
/// µs.
fn proxied(run: &Run) -> anyhow::Result<f64> {
    let redis = run.servers.redis(SERVER)?;
    Session::connect(redis.address)?.set_all(KEYS, 64)?;
    let proxy = run.servers.nutcracker(redis.address, SERVER)?;
    let mut readings = Vec::new();
    for _ in 0..run.rounds {
        let mut session = Session::connect(proxy.address)?;
        let taken = process::on(CLIENT, || session.round_trips(KEYS, 64, |index| index))??;
        readings.push(percentiles(&taken));
        run.keep("redis-miss-p50-nutcracker", &readings)?;
    }
    Ok(median(readings.iter().map(|reading| reading.value)))
}

/// One worker against two. On two cores the client takes a part of one, so the figure is what the
/// processor time of a hit says: twice the workers give twice the hits, unless each hit then costs
/// more.
pub(super) fn two_workers(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let redis = run.servers.redis(CLIENT)?;
    let one = filled(run, &redis, &["--workers", "1"], KEYS, 64, Cores::Any)?;
    let two = filled(run, &redis, &["--workers", "2"], KEYS, 64, Cores::Any)?;
    let name = "two-workers";
    let rounds = run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &two } else { &one };
        let load = load(run, server.address, PIPELINE_OF_WORKERS, 64, round);
        let reading = throughput(server, &load, Cores::Any)?;
        let workers = if side == Side::Ours { 2.0 } else { 1.0 };
        let rate = reading.value;
        let implied = workers * 1e6 / reading.others["server_us"];
        Ok(Reading { value: implied, ..reading }.with("hits_per_second", rate))
    })?;
    let (two_rate, one_rate) = rounds.medians_of("hits_per_second");
    let figure = Figure::compared(
        name,
        rounds.medians(),
        "hits/s that the workers' processor time allows (workers ÷ CPU time of a hit)",
        "one worker",
        Goal::RatioMin(1.6),
    );
    let note = format!(
        "64 B, 50 connections, pipeline {PIPELINE_OF_WORKERS}, both workers loaded, client beside them \
         on the same two cores; with it hits/s went from {one_rate:.0} to {two_rate:.0}; {}",
        processor(&rounds)
    );
    Ok(vec![figure.note(note)])
}

/// Large, to reduce the cost of the client.
const PIPELINE_OF_WORKERS: usize = 128;

/// A cache before `redis` that holds `keys` keys, which redis-server holds, too.
pub(super) fn filled(
    run: &Run,
    redis: &Server,
    options: &[&str],
    keys: u64,
    value_bytes: usize,
    cores: Cores,
) -> anyhow::Result<Server> {
    Session::connect(redis.address)?.set_all(keys, value_bytes)?;
    let options: Vec<&str> =
        [options, &["--memory", "2GiB", "--ttl", "3600s", "--statistics", "1s"]].concat();
    let cache = run.servers.cache("redis", redis.address, &options, cores)?;
    Session::connect(cache.address)?.get_all(keys, value_bytes)?;
    Ok(cache)
}

pub(super) fn load(
    run: &Run,
    address: SocketAddr,
    pipeline: usize,
    value_bytes: usize,
    seed: u64,
) -> Load {
    let (keys, duration) = (KEYS, run.round());
    let (protocol, operation, draw) = (Protocol::Redis, Operation::Get, Draw::Evenly);
    let connections = CONNECTIONS;
    Load {
        protocol,
        operation,
        draw,
        address,
        connections,
        pipeline,
        keys,
        value_bytes,
        duration,
        seed,
        rate: None,
    }
}

/// Operations a second; beside them what an operation costs the server and how busy both ends were.
pub(super) fn throughput(server: &Server, load: &Load, client: Cores) -> anyhow::Result<Reading> {
    let before = server.cpu_us()?;
    let outcome = process::on(client, || load.run())??;
    let used = server.cpu_us()? - before;
    Ok(Reading::new(outcome.per_second())
        .with("server_us", used / outcome.operations as f64)
        .with("server_busy", used / 1e6 / outcome.seconds)
        .with("client_busy", outcome.client_seconds / outcome.seconds))
}

/// Formats the processor time of a hit at either server.
pub(super) fn processor(rounds: &Rounds) -> String {
    let (ours, peer) = rounds.medians_of("server_us");
    let (busy, peer_busy) = rounds.medians_of("server_busy");
    let (client, peer_client) = rounds.medians_of("client_busy");
    format!(
        "server CPU {ours:.2} against {peer:.2} µs a hit (ratio {:.2}); busy: server {:.0} against {:.0} %, client \
         {:.0} against {:.0} %",
        ours / peer,
        busy * 100.0,
        peer_busy * 100.0,
        client * 100.0,
        peer_client * 100.0
    )
}

/// The median of sorted round trips in nanoseconds, as microseconds, and others beside it.
pub(super) fn percentiles(taken: &[u64]) -> Reading {
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    Reading::new(median(taken.iter().map(|&nanos| nanos as f64)) / 1e3)
        .with("p10", at(0.1))
        .with("p90", at(0.9))
        .with("p99", at(0.99))
}
