//! The compared workloads: each starts its servers, pinned to one core, and measures its lines with
//! a client on the other.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, ensure};

use crate::{
    figure::Reading,
    load::{Browser, Load, Operation, Session},
    measure::{
        database, edge, fabric, keyserver, mongo,
        redis::{self, filled, throughput},
        state, tls,
    },
    process::{self, CLIENT, SERVER},
    run::Run,
    stub,
};

/// Servers, and how one line of a workload is measured: the line by its place, and a seed. The
/// reading is the processor time of one operation, with `per_second` beside it. A closure captures
/// only the fields that it names, and the servers in the others end: it names all that it needs.
pub(super) type Measure<'r> = Box<dyn FnMut(usize, u64) -> anyhow::Result<Reading> + 'r>;

/// Lines that share their servers.
pub(super) struct Workload {
    pub(super) lines: &'static [&'static str],
    /// Unit of the processor time.
    pub(super) unit: &'static str,
    pub(super) start: for<'r> fn(&'r Run) -> anyhow::Result<Measure<'r>>,
}

const US: &str = "µs";

pub(super) const ALL: &[Workload] = &[
    Workload {
        lines: &["cache-redis-hit-64B-p1", "cache-redis-hit-64B-p16"],
        unit: US,
        start: redis_hits,
    },
    Workload { lines: &["cache-redis-hit-1MB"], unit: US, start: large_hits },
    Workload { lines: &["cache-redis-miss"], unit: US, start: misses },
    Workload { lines: &["cache-mongo-hit"], unit: US, start: mongo_hits },
    Workload { lines: &["cache-tls-hit"], unit: US, start: tls_hits },
    Workload {
        lines: &["db-get-p1", "db-get-p16", "db-set-p1", "db-set-p16"],
        unit: US,
        start: |run| database_of(run, database::KEYS, &[1, 16]),
    },
    Workload {
        lines: &["db-get-p16-1M", "db-set-p16-1M"],
        unit: US,
        start: |run| database_of(run, database::MANY_KEYS, &[16]),
    },
    Workload { lines: &["state-agent-p1", "state-agent-p16"], unit: US, start: agent },
    Workload { lines: &["keyserver-ecdsa"], unit: US, start: signatures },
    Workload { lines: &["edge-handshake", "edge-hit"], unit: US, start: pages },
    Workload {
        lines: &[
            "switch-hit",
            "switch-miss",
            "switch-put",
            "switch-memcached-get",
            "switch-datagram-write",
        ],
        unit: "ns",
        start: packets,
    },
    Workload {
        lines: &["fabric-packet-direct", "fabric-packet-switchv2p"],
        unit: US,
        start: simulated,
    },
];

/// The reading of [`throughput`], by processor time.
fn cost(reading: &Reading) -> Reading {
    Reading::new(reading.others["server_us"]).with("per_second", reading.value)
}

fn redis_hits(run: &Run) -> anyhow::Result<Measure<'_>> {
    let redis = run.servers.redis(CLIENT)?;
    let options = ["--workers", "1"];
    let cache = filled(run, &redis, &options, database::KEYS, stub::VALUE_BYTES, SERVER)?;
    Ok(Box::new(move |line, seed| {
        let _origin = &redis;
        let load = redis::load(run, cache.address, [1, 16][line], stub::VALUE_BYTES, seed);
        Ok(cost(&throughput(&cache, &load, CLIENT)?))
    }))
}

/// A reply of 1 MiB is the largest that is stored, with its length.
const LARGE_BYTES: usize = 1_000_000;
const LARGE_KEYS: u64 = 16;
const LARGE_CONNECTIONS: usize = 4;

fn large_hits(run: &Run) -> anyhow::Result<Measure<'_>> {
    let redis = run.servers.redis(CLIENT)?;
    let cache = filled(run, &redis, &["--workers", "1"], LARGE_KEYS, LARGE_BYTES, SERVER)?;
    Ok(Box::new(move |_, seed| {
        let load = redis::load(run, cache.address, 1, LARGE_BYTES, seed);
        let load = Load { keys: LARGE_KEYS, connections: LARGE_CONNECTIONS, ..load };
        let before = redis.cpu_us()?;
        let reading = throughput(&cache, &load, CLIENT)?;
        let asked_us = redis.cpu_us()? - before;
        ensure!(asked_us < 100_000.0, "not all hits: redis-server was busy for {asked_us} µs");
        Ok(cost(&reading))
    }))
}

/// Keys of which the cache holds one in a thousand.
const MISSED_KEYS: u64 = 1_000_000;

fn misses(run: &Run) -> anyhow::Result<Measure<'_>> {
    let origin = run.servers.stub(&["origin"], CLIENT)?;
    let options = ["--workers", "1", "--ttl", "3600s", "--capacity", "1000"];
    let cache = run.servers.cache("redis", origin.address, &options, SERVER)?;
    Ok(Box::new(move |_, seed| {
        let _origin = &origin;
        let load = redis::load(run, cache.address, 1, stub::VALUE_BYTES, seed);
        let load = Load { keys: MISSED_KEYS, ..load };
        Ok(cost(&throughput(&cache, &load, CLIENT)?))
    }))
}

fn mongo_hits(run: &Run) -> anyhow::Result<Measure<'_>> {
    let origin = run.servers.mongo()?;
    let options = ["--workers", "1", "--ttl", "3600s"];
    let cache = run.servers.cache("mongodb", origin.address, &options, SERVER)?;
    let runtime = mongo::runtime()?;
    let direct = runtime.block_on(mongo::collection(origin.address))?;
    runtime.block_on(mongo::insert(&direct, mongo::FEW))?;
    let cached = runtime.block_on(mongo::collection(cache.address))?;
    let read_all = move |cached: &_| {
        runtime.block_on(async {
            for key in 1..=mongo::FEW {
                mongo::read(cached, key).await?;
            }
            anyhow::Ok(f64::from(mongo::FEW))
        })
    };
    read_all(&cached)?;
    Ok(Box::new(move |_, _| {
        let _origin = &origin;
        let (before, began, mut count) = (cache.cpu_us()?, Instant::now(), 0.0);
        while began.elapsed() < run.round() {
            count += process::on(CLIENT, || read_all(&cached))??;
        }
        let per_second = count / began.elapsed().as_secs_f64();
        Ok(Reading::new((cache.cpu_us()? - before) / count).with("per_second", per_second))
    }))
}

/// As many requests as take about a round.
const TLS_HITS_PER_SECOND: f64 = 60_000.0;

fn tls_hits(run: &Run) -> anyhow::Result<Measure<'_>> {
    let stage = tls::Stage::set(run)?;
    tls::benchmark(&stage.directory, &stage.cache, tls::TLS, "set", 1)?;
    let requests = (run.round().as_secs_f64() * TLS_HITS_PER_SECOND) as usize;
    Ok(Box::new(move |_, _| {
        let stage = &stage;
        let reading = tls::hits(&stage.directory, &stage.cache, tls::TLS, requests)?;
        let per_second = reading.others["hits_per_second"];
        Ok(Reading::new(reading.value).with("per_second", per_second))
    }))
}

/// All pipelines of GETs, then of SETs.
fn database_of<'r>(
    run: &'r Run,
    keys: u64,
    pipelines: &'static [usize],
) -> anyhow::Result<Measure<'r>> {
    let database = run.servers.database(&["--workers", "1", "--memory", "512MiB"], SERVER)?;
    Session::connect(database.server.address)?.set_all(keys, stub::VALUE_BYTES)?;
    Ok(Box::new(move |line, seed| {
        let operation = if line < pipelines.len() { Operation::Get } else { Operation::Set };
        let pipeline = pipelines[line % pipelines.len()];
        let load = database::load(run, &database.server, operation, pipeline, seed);
        Ok(cost(&throughput(&database.server, &Load { keys, ..load }, CLIENT)?))
    }))
}

fn agent(run: &Run) -> anyhow::Result<Measure<'_>> {
    let node = state::lone_node(run, CLIENT)?;
    let agent = run.servers.agent(node.address, &[], SERVER)?;
    Ok(Box::new(move |line, seed| {
        let _node = &node;
        let load = redis::load(run, agent.address, [1, 16][line], stub::VALUE_BYTES, seed);
        Ok(cost(&throughput(&agent, &load, CLIENT)?))
    }))
}

fn signatures(run: &Run) -> anyhow::Result<Measure<'_>> {
    let site = keyserver::Site::start(run, SERVER)?;
    Ok(Box::new(move |_, _| {
        let (per_second, server_us) = process::on(CLIENT, || site.signatures(run))??;
        Ok(Reading::new(server_us).with("per_second", per_second))
    }))
}

const BROWSERS: usize = 16;

/// Full handshakes whose key is at a key server, and hits over connections that stay.
fn pages(run: &Run) -> anyhow::Result<Measure<'_>> {
    let (origin, asked) = origin()?;
    let stage = edge::Stage::set(run, &origin.to_string())?;
    Ok(Box::new(move |line, _| {
        let stage = &stage;
        let server = &stage.remote.server;
        if line == 0 {
            let reading = stage.remote.shake_hands(run.round().as_secs().max(1))?;
            let edge_us = reading.others["edge_cpu_us"];
            return Ok(Reading::new(edge_us).with("per_second", reading.value));
        }
        let authority = stage.directory.join("ca.pem");
        let mut browser = Browser::connect(server.address, "shop.example", &authority, BROWSERS)?;
        let (before, asked_before) = (server.cpu_us()?, asked.load(Relaxed));
        let (count, seconds) = process::on(CLIENT, || browser.load_for(run.round()))??;
        let used = server.cpu_us()? - before;
        ensure!(asked.load(Relaxed) == asked_before, "the origin was asked: these are no hits");
        Ok(Reading::new(used / count as f64).with("per_second", count as f64 / seconds))
    }))
}

/// An origin with one page, and how often it was asked. It ends with this process.
fn origin() -> anyhow::Result<(SocketAddr, Arc<AtomicU64>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, asked) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Relaxed);
            let response = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{}",
                PAGE_BYTES,
                "x".repeat(PAGE_BYTES)
            );
            // One read has the whole request; an edge that does not read is not measured.
            let _ = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(response.as_bytes()));
        }
    });
    Ok((address, asked))
}

const PAGE_BYTES: usize = 1_000;

/// Names that the example `packet_cost` has for the lines.
const PACKETS: [&str; 5] = ["hit", "miss", "put", "memcached-get", "datagram-write"];

fn packets(run: &Run) -> anyhow::Result<Measure<'_>> {
    Ok(Box::new(move |line, _| {
        let mut program = run.servers.example("switch", "packet_cost")?;
        let output = process::on(SERVER, || program.arg(PACKETS[line]).output())??;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "packet_cost failed; it needs root, and clang: {said}");
        let ns: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().context("a number")?;
        Ok(Reading::new(ns).with("per_second", 1e9 / ns))
    }))
}

/// Share of the trace: a second or two of processor time.
const TRACE_SHARE: f64 = 0.02;

fn simulated(run: &Run) -> anyhow::Result<Measure<'_>> {
    // Drawn once by the first of both builds, which is this one.
    let trace = fabric::draw(run, "hadoop", "ft8-10k", TRACE_SHARE)?;
    Ok(Box::new(move |line, _| {
        let scheme = ["direct", "switchv2p"][line];
        let simulate = || fabric::simulate(run, scheme, "ft8-10k", &trace);
        let (result, ended) = process::on(SERVER, simulate)??;
        let packets = result.packets_sent;
        Ok(Reading::new(ended.cpu_s * 1e6 / packets).with("per_second", packets / ended.wall_s))
    }))
}
