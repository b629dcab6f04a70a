//! More data than memory, compared with other stores.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, ensure};

use super::{CONNECTIONS, PAGE, load};
use crate::{
    figure::{Figure, Goal, Reading},
    load::{Draw, Load, Operation, Session, Zipf, ask_anything},
    process::Cores,
    run::{Run, Side},
};

/// Threads that read through RocksDB.
const READERS: usize = 8;

/// Three times as much data as memory, every key asked for exists, beside redis-server that may
/// hold as much and has to evict: then most of its answers are nothing, so only its hits count.
pub(in crate::measure) fn three_times_memory(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let mebibytes: u64 = if run.short { 64 } else { 256 };
    let keys = mebibytes * 3 * 256;
    let memory = format!("{mebibytes}MiB");
    let database = run.servers.database(&["--workers", "1", "--memory", &memory], Cores::Any)?;
    let limit = format!("{mebibytes}mb");
    let options = ["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"];
    let redis = run.servers.redis_with(&options, Cores::Any)?;
    for server in [&database.server, &redis] {
        Session::connect(server.address)?.set_all(keys, PAGE)?;
    }
    let zipf = Zipf::new(keys, 0.99);
    let held = Session::connect(redis.address)?.count("DBSIZE")? as f64;
    let rounds = run.interleave("three-times-memory", |side, round| match side {
        Side::Ours => {
            let server = &database.server;
            let load = Load {
                keys,
                draw: Draw::Zipf(zipf),
                value_bytes: PAGE,
                ..load(run, server, Operation::Get, 1, round)
            };
            let outcome = load.run()?;
            Ok(Reading::new(outcome.per_second())
                .with("p50_ms", outcome.within_ms(0.5))
                .with("p99_ms", outcome.within_ms(0.99))
                .with("max_ms", outcome.within_ms(1.0)))
        }
        Side::Peer => {
            let mut session = Session::connect(redis.address)?;
            let (before, began) = (session.hits()?, Instant::now());
            ask_anything(redis.address, CONNECTIONS, zipf, run.round(), round)?;
            let hits = (session.hits()? - before) as f64;
            Ok(Reading::new(hits / began.elapsed().as_secs_f64()))
        }
    })?;
    let p = |name| rounds.medians_of(name).0;
    let figure = Figure::compared(
        "three-times-memory",
        rounds.medians(),
        "answered values/s",
        "redis-server with maxmemory, its hits",
        Goal::RatioMin(0.0),
    );
    let resident = database.server.resident_bytes()? / f64::from(1 << 20);
    Ok(vec![figure.note(format!(
        "{keys} × 4 KiB, Zipf 0.99, 50 connections, memory {mebibytes} MiB (ours resident {resident:.0}); ours finds \
         every key: p50 {:.2}, p99 {:.2}, max {:.1} ms; redis-server has evicted all but {held:.0} keys ({:.0} %)",
        p("p50_ms"),
        p("p99_ms"),
        p("max_ms"),
        held / keys as f64 * 100.0
    ))])
}

/// The same data and memory in RocksDB, called in process: no network, no other process.
pub(in crate::measure) fn rocksdb(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let mebibytes: u64 = if run.short { 64 } else { 256 };
    let keys = mebibytes * 3 * 256;
    let memory = format!("{mebibytes}MiB");
    let database = run.servers.database(&["--workers", "1", "--memory", &memory], Cores::Any)?;
    Session::connect(database.server.address)?.set_all(keys, PAGE)?;
    let peer = build_peer(run)?;
    let directory = run.servers.directory("rocksdb")?;
    let draw = Draw::Zipf(Zipf::new(keys, 0.99));
    let rounds = run.interleave("three-times-memory-rocksdb", |side, round| match side {
        Side::Ours => {
            let server = &database.server;
            let base = load(run, server, Operation::Get, 1, round);
            let load = Load { keys, draw, value_bytes: PAGE, ..base };
            let outcome = load.run()?;
            Ok(Reading::new(outcome.per_second())
                .with("p50_ms", outcome.within_ms(0.5))
                .with("p99_ms", outcome.within_ms(0.99))
                .with("max_ms", outcome.within_ms(1.0)))
        }
        Side::Peer => read_peer(run, &peer, &directory, keys, mebibytes << 20),
    });
    // It is as large as the data.
    let removed = std::fs::remove_dir_all(&directory);
    let rounds = rounds?;
    removed?;
    let figure = Figure::compared(
        "three-times-memory-rocksdb",
        rounds.medians(),
        "values/s",
        "RocksDB in process, direct reads",
        Goal::RatioMin(0.0),
    );
    let (ours, theirs): (Vec<f64>, Vec<f64>) =
        ["p50_ms", "p99_ms", "max_ms"].map(|name| rounds.medians_of(name)).into_iter().unzip();
    Ok(vec![figure.note(format!(
        "{keys} × 4 KiB, Zipf 0.99, memory and block cache {mebibytes} MiB; ours over the wire from {CONNECTIONS} \
         connections: p50 {:.3}, p99 {:.2}, max {:.1} ms; RocksDB called by {READERS} threads: p50 {:.3}, p99 {:.2}, \
         max {:.1} ms",
        ours[0], ours[1], ours[2], theirs[0], theirs[1], theirs[2]
    ))])
}

fn read_peer(
    run: &Run,
    peer: &Path,
    directory: &Path,
    keys: u64,
    cache_bytes: u64,
) -> anyhow::Result<Reading> {
    let seconds = run.round().as_secs_f64();
    let numbers = [keys.to_string(), cache_bytes.to_string(), READERS.to_string()];
    let output =
        Command::new(peer).arg(directory).args(numbers).arg(seconds.to_string()).output()?;
    ensure!(output.status.success(), "RocksDB: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> =
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("numbers")?;
    ensure!(numbers.len() == 4, "RocksDB's peer replied {text:?}");
    Ok(Reading::new(numbers[0])
        .with("p50_ms", numbers[1])
        .with("p99_ms", numbers[2])
        .with("max_ms", numbers[3]))
}

fn build_peer(run: &Run) -> anyhow::Result<std::path::PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("rocksdb/peer.cc");
    let peer = run.scratch().join("rocksdb-peer");
    run.show("the RocksDB peer is compiled", 0.0);
    let mut command = Command::new("g++");
    command.args(["-O2", "-std=c++17", "-o"]).arg(&peer).arg(&source);
    let output = command.args(["-lrocksdb", "-lpthread"]).output().context("cannot start g++")?;
    ensure!(
        output.status.success(),
        "cannot compile the peer; `make deps` installs RocksDB, g++ is yours to choose: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(peer)
}
