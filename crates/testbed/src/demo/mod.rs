//! `enroute demo`: the paper's scenario B, on one machine, in under two minutes.
//!
//! A client reads keys 1..=100 in random order from a database 164 ms away, through caches that
//! hold 0, 10, 30, 70 and 100 of them (VNF-Cache §4.2, Table 2, Ohio). Only the distance is
//! emulated: a MongoDB origin ([`origin`]), the emulated path of `enroute link`, `enroute cache` as
//! a separate process ([`program`]), a MongoDB client ([`client`]). The latency of the path limits
//! the five rows, not the processor, so they run in parallel.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use parking_lot::Mutex;

use crate::{
    link::{Relay, RelayConfig, RelayHandle},
    report::{Progress, Table},
    workload::{Load, Outcome, Recorder, Summary},
};

mod client;
#[cfg(feature = "edge")]
pub mod edge;
mod ideal;
mod origin;
mod program;
mod show;

use client::Client;
use origin::Origin;
use program::Running;
pub use show::EXPLANATION;

/// Round trip to the paper's server in Ohio.
const ROUND_TRIP: Duration = Duration::from_millis(164);
/// The keys that are read, 1..=KEYS.
const KEYS: u32 = 100;
/// Reads of one row in the paper: 30 batches of 1,000.
const READS_MAX: u64 = 30_000;
/// Interval at which the rows are polled.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A capacity, and the paper's mean for it in milliseconds.
struct Row {
    capacity: usize,
    paper_mean_ms: f64,
}

const ROWS: [Row; 5] = [
    Row { capacity: 0, paper_mean_ms: 164.0 },
    Row { capacity: 10, paper_mean_ms: 174.48 },
    Row { capacity: 30, paper_mean_ms: 138.51 },
    Row { capacity: 70, paper_mean_ms: 64.66 },
    Row { capacity: 100, paper_mean_ms: 8.08 },
];

/// Result of one row.
struct Measured {
    summary: Summary,
    /// Keys that were read at least once.
    distinct: usize,
}

/// Runs the demonstration; no read starts after `run_max`. `stop` ends it early, with the result so
/// far. Progress goes to standard error.
///
/// # Errors
/// A process, socket or thread could not be created, or a reply was wrong.
pub fn run(run_max: Duration, stop: &AtomicBool) -> anyhow::Result<Table<9>> {
    show::introduce(run_max);
    let paths = ROWS.iter().map(Path::start);
    let paths = paths.collect::<anyhow::Result<Vec<_>>>()?;
    let recorders: [Mutex<Recorder>; ROWS.len()] = Default::default();
    let measured = thread::scope(|scope| {
        let runs: Vec<_> = (0..)
            .zip(paths.iter().zip(&recorders))
            .map(|(seed, (path, recorder))| {
                let load =
                    Load { keys: KEYS.into(), seed, reads_max: READS_MAX, duration_max: run_max };
                scope.spawn(move || path.read(&load, recorder, stop))
            })
            .collect();
        let (mut progress, started) = (Progress::stderr(), Instant::now());
        while !runs.iter().all(thread::ScopedJoinHandle::is_finished) {
            progress.show(&show::live(&recorders), started.elapsed());
            thread::sleep(LOOK_INTERVAL);
        }
        let joined = runs.into_iter().map(|run| run.join().expect("a row does not panic"));
        joined.collect::<anyhow::Result<Vec<_>>>()
    })?;
    for path in paths {
        path.stop();
    }
    Ok(show::table(&measured))
}

/// One cache and its client on this machine, with a separate path and origin.
struct Path {
    origin: Origin,
    link: RelayHandle,
    cache: Running,
    address: SocketAddr,
}

impl Path {
    fn start(row: &Row) -> anyhow::Result<Self> {
        let origin = Origin::start().context("cannot start the embedded origin")?;
        let link = Relay::start(RelayConfig::new(origin.address()).round_trip(ROUND_TRIP))
            .context("cannot start the emulated path")?;
        let mut command = program::ourselves()?;
        command.args(["--log", "error", "cache", "--workers", "1"]);
        command.args(["--listen", "mongodb://127.0.0.1:0"]);
        command.args(["--origin", &format!("mongodb://{}", link.local_addr())]);
        match row.capacity {
            0 => command.args(["--exclude", "*"]),
            items => command.args(["--capacity", &items.to_string()]),
        };
        let (cache, address) =
            program::serving(&mut command, "mongodb").context("cannot start the cache")?;
        Ok(Self { origin, link, cache, address })
    }

    fn read(
        &self,
        load: &Load,
        recorder: &Mutex<Recorder>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Measured> {
        let mut client = Client::connect(self.address)?;
        // The handshake is not part of any read, as in the paper.
        client.hello()?;
        let (mut seen, mut forwarded) = (HashSet::new(), 0);
        load.drive(recorder, stop, |key| {
            client.find(key as i32)?;
            seen.insert(key);
            // Only misses reach the origin, each before it is answered.
            let before = std::mem::replace(&mut forwarded, self.origin.finds());
            Ok(if forwarded > before { Outcome::Miss } else { Outcome::Hit })
        })?;
        Ok(Measured { summary: recorder.lock().summary(), distinct: seen.len() })
    }

    fn stop(self) {
        drop(self.cache);
        self.link.stop();
    }
}

/// A listener on a free port of this machine.
fn listen_locally() -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}
