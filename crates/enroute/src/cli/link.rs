//! `enroute link`: an emulated path for the command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use super::signal::EndSignal;
use crate::link::{
    LinkStats, PathConfig, Relay, RelayConfig, parse_cut, parse_duration, parse_loss, parse_rate,
};

const EXAMPLES: &str = "\
EXAMPLES:
  The paper's path from Brazil to Ohio, before a Redis on this machine:
    enroute link --listen 127.0.0.1:7000 --to 127.0.0.1:6379 --rtt 164ms
    redis-cli -p 7000

  A bad mobile path, repeatable by its seed:
    enroute link --to 127.0.0.1:6379 --rtt 80ms --jitter 10ms --rate 20mbit --loss 1% --seed 7

  Two seconds without a path, ten seconds after the start:
    enroute link --to 127.0.0.1:27017 --rtt 10ms --cut 10s..12s --progress

Ctrl-C ends it and prints what has crossed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where clients connect; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:7000", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// Where their connections go, as host:port
    #[arg(long, value_name = "ADDRESS")]
    to: String,

    /// Round trip time of the path, half of it each way
    #[arg(long, value_parser = parse_duration, default_value = "0", value_name = "TIME")]
    rtt: Duration,

    /// One-way delay toward the far side, instead of half of --rtt
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    delay_up: Option<Duration>,

    /// One-way delay back, instead of half of --rtt
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    delay_down: Option<Duration>,

    /// Each crossing takes up to this much more or less
    #[arg(long, value_parser = parse_duration, default_value = "0", value_name = "TIME")]
    jitter: Duration,

    /// Bandwidth each way, shared by all connections [default: unbounded]
    #[arg(long, value_parser = parse_rate, value_name = "RATE")]
    rate: Option<u64>,

    /// What the queue before the bottleneck holds, as the time to drain it
    #[arg(long, value_parser = parse_duration, default_value = "50ms", value_name = "TIME")]
    queue: Duration,

    /// Share of lost packets; the relay turns a loss into the time its retransmission takes
    #[arg(long, value_parser = parse_loss, default_value = "0%", value_name = "SHARE")]
    loss: f64,

    /// Cut the path during this time since the start; repeatable, `10s..` never heals
    #[arg(long, value_parser = parse_cut, value_name = "FROM..TO")]
    cut: Vec<Range<Duration>>,

    /// Do not hold a connection's first bytes for the round trip of its handshake
    #[arg(long)]
    no_handshake: bool,

    /// Jitter and losses follow from this number
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    seed: u64,

    /// Print what crossed in each second, on standard error
    #[arg(long)]
    progress: bool,
}

impl Arguments {
    fn path(&self, delay: Duration) -> PathConfig {
        PathConfig {
            delay,
            jitter: self.jitter,
            bits_per_second: self.rate,
            loss: self.loss,
            queue: self.queue,
            reorder: false,
        }
    }

    fn relay(&self) -> anyhow::Result<RelayConfig> {
        let to = self
            .to
            .to_socket_addrs()
            .with_context(|| format!("--to {} is not an address; write host:port", self.to))?
            .next()
            .with_context(|| format!("--to {} has no address", self.to))?;
        let up = self.delay_up.unwrap_or(self.rtt / 2);
        let down = self.delay_down.unwrap_or(self.rtt - self.rtt / 2);
        Ok(RelayConfig {
            listen: self.listen,
            up: self.path(up),
            down: self.path(down),
            handshake: !self.no_handshake,
            cuts: self.cut.clone(),
            seed: self.seed,
            ..RelayConfig::new(to)
        })
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = arguments.relay()?;
    let end = EndSignal::listen()?;
    let (to, up, down) = (config.to, config.up.delay, config.down.delay);
    let relay = Relay::start(config).context("cannot start the relay")?;
    eprintln!("{} -> {to}, {up:?} there and {down:?} back", relay.local_addr());
    wait(&end, arguments.progress, || relay.stats());
    eprintln!("{}", relay.stop());
    Ok(())
}

/// Waits for the end, and shows what crosses meanwhile if asked to.
fn wait(end: &EndSignal, progress: bool, stats: impl Fn() -> LinkStats) {
    let (mut then, mut at) = (stats(), Instant::now());
    while !end.wait(progress.then_some(Duration::from_secs(1))) {
        let now = stats();
        eprintln!("{}", now.since(&then, at.elapsed()));
        (then, at) = (now, Instant::now());
    }
}
