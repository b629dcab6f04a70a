//! NetCache's rack with the real program: clients, a switch and rate-limited servers in network
//! namespaces of one machine (SOSP 2017, section 6.1, "server emulation").
//!
//! Read first: [`run`]. The rates are 1/40,000 of the paper's; only ratios are compared with it.
//! `fabric::rack` simulates the same rack packet by packet.

mod arrival;
mod clients;
pub mod namespaces;
mod popularity;
mod servers;

pub use clients::{Second, WINDOW};
pub use popularity::Change;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use anyhow::{anyhow, bail, ensure};
use fabric::rack::key;
use policy::hotkey;
use serde::Serialize;
use switch::{
    attach::{self, Side},
    install::Key,
    layout::Protocol,
    plane::{Config as PlaneConfig, DataPlane},
};

use crate::services::Switch;
use namespaces::{End, Namespaces, SERVERS, SWITCH};
use popularity::Popularity;

const PORT: u16 = 50_000;
/// Timeout for filling the cache.
const WARM_MAX: Duration = Duration::from_secs(20);
/// Runs that lose more are rejected (OrbitCache's rule).
pub const LOSS_MAX: f64 = 0.02;
/// Share of the throughput before a change at which it counts as recovered.
const RECOVERED: f64 = 0.9;

/// Configuration of a rack and its clients.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// Number of servers, each a queue with the same rate; each key belongs to one.
    pub servers: u32,
    /// Capacity of one server, in queries per second.
    pub server_qps: u32,
    /// Queue length of one server; further queries are dropped.
    pub server_queue: u32,
    /// Number of hottest items cached before the first query; 0 runs without the program.
    pub cached: u32,
    /// Number of keys.
    pub keys: u64,
    /// Zipf exponent of the popularity of reads; 0 is uniform.
    pub skew: f64,
    /// Share of writes.
    pub writes: f64,
    /// Zipf exponent of the popularity of writes.
    pub write_skew: f64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Warm-up time, in seconds; clients use it to find the rate.
    pub settle_s: u32,
    /// Measured time, in seconds.
    pub seconds: u32,
    /// Interval at which the controller takes reports of hot keys, in milliseconds; 0 for at once.
    pub reports_every_ms: u64,
    /// The change of popularity during the run.
    pub change: Change,
    /// Seed of the random queries.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: 128,
            server_qps: 250,
            server_queue: 32,
            cached: 10_000,
            keys: 100_000_000,
            skew: 0.99,
            writes: 0.0,
            write_skew: 0.0,
            value_bytes: 128,
            settle_s: 6,
            seconds: 5,
            reports_every_ms: 0,
            change: Change::None,
            seed: 1,
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Configuration of the run.
    pub config: Config,
    /// Answers per second.
    pub throughput_qps: f64,
    /// Of these, answers by the switch.
    pub switch_qps: f64,
    /// Of these, answers by the servers.
    pub servers_qps: f64,
    /// Share of queries that were lost.
    pub loss: f64,
    /// Whether the loss is too high for a valid run.
    pub rejected: bool,
    /// Seconds from each change until throughput recovered; without recovery, until the next
    /// change.
    pub recovery_s: Vec<f64>,
    /// Results of each second.
    pub seconds: Vec<Second>,
}

/// Builds the rack, runs it, and takes it down; `show` is called every second.
///
/// # Errors
/// The process lacks root privileges, or a kernel call fails.
pub fn run<S: Switch>(
    config: &Config,
    show: impl Fn(&Second) + Send + Sync,
) -> anyhow::Result<Outcome> {
    ensure!(
        config.servers > 0 && config.server_qps > 0,
        "--servers and --server-qps: expected more than 0"
    );
    let namespaces = Namespaces::build()?;
    let stop = Arc::new(AtomicBool::new(false));
    let servers: SocketAddr = (SERVERS, PORT).into();
    std::thread::scope(|scope| {
        let ending = Ending(&stop);
        let served = scope.spawn(|| {
            namespaces.enter(End::Servers)?;
            let accepting = accepting(config)?;
            servers::serve::<S>(servers, SWITCH.into(), config, &stop)?;
            drop(accepting);
            anyhow::Ok(())
        });
        let (ready, is_ready) = mpsc::channel();
        let (namespaces, ended) = (&namespaces, &stop);
        let mut switched = (config.cached > 0).then(|| {
            // If it fails, `ready` is closed without a message.
            scope.spawn(move || {
                namespaces.enter(End::Switch)?;
                let mut switch = attached::<S>(config)?;
                warm(&mut switch, config, servers)?;
                let _ = ready.send(());
                switch.run(Duration::from_millis(config.reports_every_ms), ended)
            })
        });
        let late = |_: &mut _| is_ready.recv_timeout(WARM_MAX * 2).is_err();
        if let Some(switched) = switched.take_if(late) {
            drop(ending);
            switched.join().map_err(|_| anyhow!("the switch panicked"))??;
            bail!("the switch was not ready in {} s", WARM_MAX.as_secs() * 2);
        }
        let asked = scope.spawn(|| {
            namespaces.enter(End::Client)?;
            let accepting = accepting(config)?;
            let windows = clients::ask(servers, config, &show)?;
            drop(accepting);
            anyhow::Ok(windows)
        });
        let windows = asked.join().map_err(|_| anyhow!("the clients panicked"))?;
        drop(ending);
        served.join().map_err(|_| anyhow!("the servers panicked"))??;
        if let Some(switched) = switched {
            switched.join().map_err(|_| anyhow!("the switch panicked"))??;
        }
        Ok(outcome(config, &windows?))
    })
}

/// Stops the threads of a rack when dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Frames that the program sends back over a veth pair arrive only if a program is attached to the
/// other end.
fn accepting(config: &Config) -> anyhow::Result<Option<attach::Accepting>> {
    Ok(if config.cached > 0 { Some(attach::accept("eth0")?) } else { None })
}

fn attached<S: Switch>(config: &Config) -> anyhow::Result<S> {
    let mut plane = DataPlane::load(PlaneConfig {
        netcache_port: PORT,
        memcache_port: 0,
        // A sixteenth is kept free for keys that become hot.
        entries: (config.cached + config.cached / 15 + 32).next_multiple_of(32),
        // The rates are 1/40,000 of the paper's, so every access is counted.
        statistics: hotkey::Config {
            threshold: 3,
            sampled_per_65536: 65_536,
            ..hotkey::Config::default()
        },
        ..PlaneConfig::default()
    })?;
    plane.attach("client0", Side::Clients, false)?;
    plane.attach("server0", Side::Servers, false)?;
    S::new(plane)
}

fn warm(switch: &mut impl Switch, config: &Config, servers: SocketAddr) -> anyhow::Result<()> {
    let keys = (0..u64::from(config.cached)).map(|number| Key {
        name: key(number),
        bytes: Vec::new(),
        server: servers,
        protocol: Protocol::NetCache,
        lease: 0,
    });
    let keys: Vec<Key> = keys.collect();
    let cached = switch.warm(&keys, WARM_MAX)?;
    // About one in a million keys does not fit into the lookup table.
    ensure!(cached + 10 >= keys.len(), "only {cached} of {} keys could be cached", keys.len());
    Ok(())
}

fn outcome(config: &Config, windows: &[Second]) -> Outcome {
    let per_second = (1.0 / WINDOW.as_secs_f64()).round() as usize;
    let settled = &windows[(config.settle_s as usize * per_second).min(windows.len())..];
    let sum = settled.iter().fold(Second::default(), Second::and);
    let span = settled.len().max(1) as f64 * WINDOW.as_secs_f64();
    Outcome {
        config: config.clone(),
        throughput_qps: (sum.switch + sum.servers) as f64 / span,
        switch_qps: sum.switch as f64 / span,
        servers_qps: sum.servers as f64 / span,
        loss: sum.loss(),
        rejected: sum.loss() > LOSS_MAX,
        recovery_s: recoveries(config, settled),
        seconds: settled
            .chunks(per_second)
            .map(|windows| windows.iter().fold(Second::default(), Second::and))
            .collect(),
    }
}

/// Time from each change until throughput recovered to that of the second before the change.
fn recoveries(config: &Config, windows: &[Second]) -> Vec<f64> {
    let every = (config.change.every().as_secs_f64() / WINDOW.as_secs_f64()).round() as usize;
    let second = (1.0 / WINDOW.as_secs_f64()).round() as usize;
    if every <= second {
        return Vec::new();
    }
    let answered = |window: &Second| window.switch + window.servers;
    let changes = (every..).step_by(every).take_while(|at| at + every <= windows.len());
    changes
        .map(|at| {
            let before: u64 = windows[at - second..at].iter().map(answered).sum();
            let enough = before as f64 / second as f64 * RECOVERED;
            let after = &windows[at..at + every];
            // Half of the window of the change is before the change.
            let fell = after.iter().position(|window| (answered(window) as f64) < enough);
            let back = fell.and_then(|fell| {
                after[fell..].iter().position(|window| answered(window) as f64 >= enough)
            });
            let count = match (fell, back) {
                (None, _) => 0,
                (Some(fell), Some(back)) => fell + back,
                (Some(_), None) => every,
            };
            count as f64 * WINDOW.as_secs_f64()
        })
        .collect()
}
