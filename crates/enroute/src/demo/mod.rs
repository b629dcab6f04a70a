//! `enroute demo`: the paper's scenario B, on one machine, in under two minutes.
//!
//! A client reads keys 1..=100 in random order from a database 164 ms away, through caches that hold
//! 0, 10, 30, 70 and 100 of them (VNF-Cache §4.2, Table 2, Ohio). Everything is real but the
//! distance: an origin that speaks MongoDB ([`origin`]), the emulated path of `enroute link`, the
//! cache of `enroute cache`, a client that speaks MongoDB ([`client`]). The five rows are bound by
//! the path, not by the processor, so they run side by side.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::{
    config::{Address, Document, ListenerDocument, Scheme},
    link::{Relay, RelayConfig, RelayHandle},
    runtime::Runtime,
};

mod client;
mod measure;
mod origin;
mod show;

use client::Client;
use measure::{Measured, Progress};
use origin::Origin;

/// Round trip to the paper's server in Ohio.
const ROUND_TRIP: Duration = Duration::from_millis(164);
/// The keys that are read, 1..=KEYS.
pub(crate) const KEYS: u32 = 100;
/// Reads of one row in the paper: 30 batches of 1,000.
const READS_MAX: usize = 30_000;
/// How long a row may run if it does not come to that many.
const RUN_MAX: Duration = Duration::from_secs(75);

/// A capacity, and the paper's mean for it in milliseconds.
pub(crate) struct Row {
    pub(crate) capacity: usize,
    pub(crate) paper_mean_ms: f64,
}

const ROWS: [Row; 5] = [
    Row { capacity: 0, paper_mean_ms: 164.0 },
    Row { capacity: 10, paper_mean_ms: 174.48 },
    Row { capacity: 30, paper_mean_ms: 138.51 },
    Row { capacity: 70, paper_mean_ms: 64.66 },
    Row { capacity: 100, paper_mean_ms: 8.08 },
];

/// Runs the demonstration; `stop` ends it early with what it has.
///
/// # Errors
/// A socket or thread could not be had, or a reply was wrong.
pub fn run(seconds_max: Option<u64>, stop: &AtomicBool) -> anyhow::Result<()> {
    let run_max = seconds_max.map_or(RUN_MAX, Duration::from_secs);
    let origin = Origin::start().context("cannot start the embedded origin")?;
    show::introduce(ROUND_TRIP, run_max);
    let paths = ROWS.iter().map(|row| Path::start(row, origin.address()));
    let paths = paths.collect::<anyhow::Result<Vec<_>>>()?;
    let progress: Vec<Arc<Progress>> = ROWS.iter().map(|_| Arc::default()).collect();
    let measured = thread::scope(|scope| {
        let runs: Vec<_> = paths
            .iter()
            .zip(&progress)
            .enumerate()
            .map(|(seed, (path, progress))| {
                scope.spawn(move || path.read(seed as u64, run_max, progress, stop))
            })
            .collect();
        let mut screen = show::Screen::new();
        while !runs.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(show::REFRESH);
            screen.update(&ROWS, &paths, &progress);
        }
        let joined = runs.into_iter().map(|run| run.join().expect("a row does not panic"));
        joined.collect::<anyhow::Result<Vec<_>>>()
    })?;
    show::table(&ROWS, &measured);
    for path in paths {
        path.stop();
    }
    Ok(())
}

/// One cache beside its client, with its own path to the origin.
pub(crate) struct Path {
    cache: Runtime,
    link: RelayHandle,
}

impl Path {
    fn start(row: &Row, origin: SocketAddr) -> anyhow::Result<Self> {
        let link = Relay::start(RelayConfig::new(origin).round_trip(ROUND_TRIP))
            .context("cannot start the emulated path")?;
        let mongodb = |address: SocketAddr| Address {
            scheme: Scheme::Mongodb,
            host_port: address.to_string(),
        };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut document = Document {
            workers: Some(1),
            listeners: vec![ListenerDocument::new(mongodb(any), mongodb(link.local_addr()))],
            ..Document::default()
        };
        document.storage.capacity = Some(row.capacity);
        let cache = Runtime::start(document.setup()?).context("cannot start the cache")?;
        Ok(Self { cache, link })
    }

    fn read(
        &self,
        seed: u64,
        run_max: Duration,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> anyhow::Result<Measured> {
        let mut client = Client::connect(self.cache.addresses()[0])?;
        // The handshake is not part of any read, as in the paper.
        client.hello()?;
        let mut random = Pcg64::seed_from_u64(seed);
        let start = Instant::now();
        let mut latencies = Vec::with_capacity(READS_MAX);
        let mut seen = [false; KEYS as usize + 1];
        while latencies.len() < READS_MAX && start.elapsed() < run_max && !stop.load(Relaxed) {
            let key = random.random_range(1..=KEYS);
            seen[key as usize] = true;
            let asked = Instant::now();
            client.find(key)?;
            let latency = asked.elapsed();
            progress.record(latency);
            latencies.push(latency);
        }
        let distinct = seen.iter().filter(|seen| **seen).count();
        Ok(Measured::new(latencies, start.elapsed(), self.hits(), distinct))
    }

    /// Reads the cache answered from storage.
    pub(crate) fn hits(&self) -> u64 {
        self.cache.shared().stats.iter().map(|stats| stats.hits.value()).sum()
    }

    fn stop(self) {
        self.cache.stop();
        self.link.stop();
    }
}

/// A listener on a free port of this machine.
fn listen_locally() -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}
