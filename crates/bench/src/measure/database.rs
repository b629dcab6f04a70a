//! `enroute db` beside redis-server, beside bare reads of the disk, and beside the paper.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::redis::{processor, throughput};
use crate::{
    figure::{Figure, Goal, Reading},
    load::{Draw, Load, Operation, Session, Zipf},
    process::{CLIENT, Cores, SERVER, Server},
    run::{Run, Side},
};

const KEYS: u64 = 10_000;
const CONNECTIONS: usize = 50;
/// Bytes of the values in the paper.
const PAGE: usize = 4_096;
/// Threads of `enroute db` that read from the disk, and of the bare reads beside it.
const READERS: usize = 8;

fn load(run: &Run, server: &Server, operation: Operation, pipeline: usize, seed: u64) -> Load {
    Load {
        operation,
        draw: Draw::Evenly,
        address: server.address,
        connections: CONNECTIONS,
        pipeline,
        keys: KEYS,
        value_bytes: 64,
        duration: run.round(),
        seed,
    }
}

pub(super) fn get_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "get-p1", Operation::Get, 1)
}

pub(super) fn get_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "get-p16", Operation::Get, 16)
}

pub(super) fn set_p1(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "set-p1", Operation::Set, 1)
}

pub(super) fn set_p16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    in_memory(run, "set-p16", Operation::Set, 16)
}

/// Both on a core of their own, everything in memory; redis-server keeps nothing on disk, ours does.
fn in_memory(
    run: &Run,
    name: &str,
    operation: Operation,
    pipeline: usize,
) -> anyhow::Result<Vec<Figure>> {
    let redis = run.servers.redis(SERVER)?;
    let durable = run.servers.redis_with(&["--appendonly", "yes"], SERVER)?;
    let database = run.servers.database(&["--workers", "1", "--memory", "512MiB"], SERVER)?;
    for server in [&redis, &durable, &database.server] {
        Session::connect(server.address)?.set_all(KEYS, 64)?;
    }
    let rounds = run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &database.server } else { &redis };
        throughput(server, &load(run, server, operation, pipeline, round), CLIENT)
    })?;
    let unit = if operation == Operation::Get { "GETs/s" } else { "SETs/s" };
    let figure =
        Figure::compared(name, rounds.medians(), unit, "redis-server", Goal::RatioMin(1.0));
    let mut note = processor(&rounds);
    if operation == Operation::Set {
        let same = throughput(&durable, &load(run, &durable, operation, pipeline, 0), CLIENT)?;
        note = format!(
            "{note}; redis-server keeps nothing on disk, ours everything within a second; redis-server \
             with appendfsync everysec: {:.0}/s, {:.2} µs",
            same.value, same.others["server_us"]
        );
    }
    Ok(vec![figure.note(note)])
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

/// Memory of the paper's Table 5 in GB, and the requests a second it reached.
const PAPER: [(f64, f64); 6] = [
    (0.0, 360_478.3),
    (0.1, 439_427.5),
    (0.2, 629_350.8),
    (0.5, 667_707.4),
    (1.0, 669_886.1),
    (2.0, 663_842.2),
];

/// The paper's sweep: 50,000 × 4 KiB, asked for one after the other, for each memory.
pub(super) fn table_5(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let keys = 50_000;
    // The least there is stands for the paper's 0.
    let database = run.servers.database(&["--workers", "1", "--memory", "8MiB"], Cores::Any)?;
    let mut session = Session::connect(database.server.address)?;
    session.set_all(keys, PAGE)?;
    let mut figures = Vec::new();
    for (gigabytes, paper) in PAPER {
        let bytes = ((gigabytes * 1e9) as u64).max(8 << 20);
        rescale(&mut session, bytes)?;
        // The first pass fills memory, the second is measured.
        session.get_all(keys, PAGE)?;
        settle(&database.server)?;
        let began = Instant::now();
        let taken = session.round_trips(keys, PAGE, |index| index)?;
        let rate = keys as f64 / began.elapsed().as_secs_f64();
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let average = taken.iter().map(|&nanos| ms(nanos)).sum::<f64>() / taken.len() as f64;
        let peer = "the paper, called in process, one after the other";
        let figure = Figure::compared(
            &format!("table-5-{gigabytes}GB"),
            (rate, paper),
            "lookups/s, one connection",
            peer,
            Goal::RatioMin(0.0),
        );
        figures.push(figure.note(format!(
            "Tmax {:.3} ms, Tmin {:.5} ms, Tavg {average:.5} ms; ours over the wire, so no goal; resident {:.0} MiB",
            ms(taken[taken.len() - 1]),
            ms(taken[0]),
            database.server.resident_bytes()? / f64::from(1 << 20)
        )));
    }
    run.keep("table-5", &figures)?;
    Ok(figures)
}

fn rescale(session: &mut Session, bytes: u64) -> anyhow::Result<()> {
    let bytes = bytes.to_string();
    session.command(&["RESCALE", &bytes])
}

/// Lets a rescale come to its end.
fn settle(_: &Server) -> anyhow::Result<()> {
    thread::sleep(Duration::from_millis(500));
    Ok(())
}

/// Next to nothing in memory, against bare reads of 4 KiB from the same files.
pub(super) fn cold(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let keys: u64 = if run.short { 50_000 } else { 200_000 };
    let readers = READERS.to_string();
    let options = ["--workers", "1", "--memory", "16MiB", "--readers", &readers];
    let database = run.servers.database(&options, Cores::Any)?;
    Session::connect(database.server.address)?.set_all(keys, PAGE)?;
    thread::sleep(Duration::from_secs(2));
    let files = segments(&database.directory)?;
    let name = "cold-vs-pread";
    let rounds = run.interleave(name, |side, round| match side {
        Side::Ours => {
            let server = &database.server;
            let load =
                Load { keys, value_bytes: PAGE, ..load(run, server, Operation::Get, 1, round) };
            throughput(server, &load, Cores::Any)
        }
        Side::Peer => Ok(Reading::new(bare_reads(&files, run.round(), round)?)
            .with("server_us", 0.0)
            .with("server_busy", 0.0)
            .with("client_busy", 0.0)),
    })?;
    let figure = Figure::compared(
        name,
        rounds.medians(),
        "lookups/s",
        "preads of 4 KiB past the page cache",
        Goal::RatioMin(0.8),
    );
    Ok(vec![figure.note(format!("{keys} × 4 KiB, memory 16 MiB, {READERS} reading threads each"))])
}

/// The log's files, opened to be read past the page cache.
fn segments(directory: &Path) -> anyhow::Result<Vec<(File, u64)>> {
    let mut files = Vec::new();
    for shard in fs::read_dir(directory)? {
        let shard = shard?.path();
        if !shard.is_dir() {
            continue;
        }
        for file in fs::read_dir(shard)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
                let file = OpenOptions::new().read(true).custom_flags(direct).open(&path)?;
                let pages = file.metadata()?.len() / PAGE as u64;
                files.push((file, pages));
            }
        }
    }
    ensure!(!files.is_empty(), "no files of the log in {}", directory.display());
    Ok(files)
}

/// How many pages a second [`READERS`] threads read at random.
fn bare_reads(files: &[(File, u64)], duration: Duration, seed: u64) -> anyhow::Result<f64> {
    let began = Instant::now();
    let counts = thread::scope(|scope| {
        let threads: Vec<_> = (0..READERS as u64)
            .map(|index| {
                scope.spawn(move || -> anyhow::Result<u64> {
                    let mut random = Pcg64Mcg::seed_from_u64(seed * 100 + index);
                    let mut bytes = vec![0_u8; PAGE * 2];
                    let aligned = bytes.as_ptr().align_offset(PAGE);
                    let buffer = &mut bytes[aligned..aligned + PAGE];
                    let mut count = 0;
                    while began.elapsed() < duration {
                        let (file, pages) = &files[random.random_range(0..files.len())];
                        file.read_exact_at(buffer, random.random_range(0..*pages) * PAGE as u64)?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?)
            .collect::<anyhow::Result<Vec<u64>>>()
    })?;
    Ok(counts.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64())
}

/// Three times as much data as memory, every key asked for exists, beside redis-server that may
/// hold as much and has to evict: then most of its answers are nothing, so only its hits count.
pub(super) fn three_times_memory(run: &Run) -> anyhow::Result<Vec<Figure>> {
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
            crate::load::ask_anything(redis.address, CONNECTIONS, zipf, run.round(), round)?;
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

/// The issue's own case: 1 M × 4 KiB, 1 GiB, Zipf 0.99, rescaled to 2 GiB and back while serving.
pub(super) fn zipf(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let (keys, mebibytes): (u64, u64) = if run.short { (100_000, 100) } else { (1_000_000, 1_024) };
    let memory = format!("{mebibytes}MiB");
    let database = run.servers.database(&["--memory", &memory], Cores::Any)?;
    let server = &database.server;
    run.show("storing", 0.1);
    Session::connect(server.address)?.set_all(keys, PAGE)?;
    let draw = Draw::Zipf(Zipf::new(keys, 0.99));
    let base = Load { keys, draw, value_bytes: PAGE, ..load(run, server, Operation::Get, 1, 7) };
    run.show("warming", 0.4);
    Load { duration: run.round() * 5, ..base }.run()?;
    run.show("measuring", 0.6);
    let seconds = run.round() * 6;
    let (outcome, floor) = thread::scope(|scope| {
        let rescales = scope.spawn(|| -> anyhow::Result<()> {
            let mut session = Session::connect(server.address)?;
            for megabytes in [mebibytes * 2, mebibytes] {
                thread::sleep(seconds / 3);
                rescale(&mut session, megabytes << 20)?;
            }
            Ok(())
        });
        let floor = scope.spawn(move || noise(seconds));
        let outcome = Load { duration: seconds, ..base }.run();
        rescales.join().map_err(|_| anyhow::anyhow!("rescaling panicked"))??;
        anyhow::Ok((outcome?, floor.join().map_err(|_| anyhow::anyhow!("the noise panicked"))?))
    })?;
    let resident = server.resident_bytes()? / f64::from(1 << 20);
    let at_least = 30_000.0;
    let ops = Figure::compared(
        "zipf-1M-quarter-ops",
        (outcome.per_second(), at_least),
        "GETs/s",
        "the issue's 30,000",
        Goal::RatioMin(1.0),
    );
    let max = Figure::alone("zipf-1M-quarter-max-ms", outcome.within_ms(1.0), "ms", 5.0);
    let note = format!(
        "{keys} × 4 KiB, {mebibytes} MiB → {} → {mebibytes}, 50 connections; p50 {:.3}, p99 {:.3}, p99.99 {:.3} ms; \
         the machine's own longest pause {floor:.2} ms; resident after {resident:.0} MiB",
        mebibytes * 2,
        outcome.within_ms(0.5),
        outcome.within_ms(0.99),
        outcome.within_ms(0.9999),
    );
    Ok(vec![ops.note(note.clone()), max.note(note)])
}

/// The longest time, in ms, a thread that only asks for the time was not let run.
fn noise(duration: Duration) -> f64 {
    let began = Instant::now();
    let (mut last, mut longest) = (began, Duration::ZERO);
    while began.elapsed() < duration {
        // It must not take the core from those it watches.
        thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        longest = longest.max(now.duration_since(last).saturating_sub(Duration::from_millis(1)));
        last = now;
    }
    longest.as_secs_f64() * 1e3
}
