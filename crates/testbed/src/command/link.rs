//! `enroute link`: an emulated path for the command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use notation::{parse_cut, parse_duration, parse_loss, parse_rate};

use crate::link::{
    Address, LinkStats, PathConfig, Relay, RelayConfig, Tunnel, TunnelConfig, TunnelEnd,
};

const EXAMPLES: &str = "\
EXAMPLES:
  The path of the VNF-Cache paper from Brazil to Ohio, in front of a Redis on this machine:
    enroute link --listen 127.0.0.1:7000 --to 127.0.0.1:6379 --rtt 164ms
    redis-cli -p 7000

  A lossy mobile path, repeatable by its seed:
    enroute link --to 127.0.0.1:6379 --rtt 80ms --jitter 10ms --rate 20mbit --loss 1% --seed 7

  An outage of two seconds, ten seconds after the start:
    enroute link --to 127.0.0.1:27017 --rtt 10ms --cut 10s..12s --progress

  Per packet between two network namespaces, as root:
    ip netns add client; ip netns add server
    enroute link --tun --namespace-a client --address-a 10.0.0.1/30 \\
      --namespace-b server --address-b 10.0.0.2/30 --rtt 164ms --loss 0.1%
    ip netns exec client ping 10.0.0.2

Ctrl-C ends the emulation and prints its counters.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// Address that clients connect to; port 0 picks a free port, which is printed
    #[arg(long, default_value = "127.0.0.1:7000", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// Address that connections are forwarded to, HOST:PORT
    #[arg(long, value_name = "ADDRESS", required_unless_present = "tun")]
    to: Option<String>,

    /// Forward packets between two network namespaces instead of TCP connections; needs root
    #[arg(
        long,
        requires_all = ["address_a", "address_b"],
        conflicts_with_all = ["listen", "to", "no_handshake"],
    )]
    tun: bool,

    /// Network namespace of the client, by name or path [default: the one enroute runs in]
    #[arg(long, requires = "tun", value_name = "NAMESPACE")]
    namespace_a: Option<String>,

    /// Network namespace of the server side, by name or path [default: the one enroute runs in]
    #[arg(long, requires = "tun", value_name = "NAMESPACE")]
    namespace_b: Option<String>,

    /// Address and prefix of the client side, for example 10.0.0.1/30
    #[arg(long, requires = "tun", value_name = "ADDRESS")]
    address_a: Option<Address>,

    /// Address and prefix of the server side, for example 10.0.0.2/30
    #[arg(long, requires = "tun", value_name = "ADDRESS")]
    address_b: Option<Address>,

    /// Name of the TUN devices; the kernel replaces %d by a number
    #[arg(long, requires = "tun", default_value = "enroute%d", value_name = "NAME")]
    device: String,

    /// Let jitter reorder packets
    #[arg(long, requires = "tun")]
    reorder: bool,

    /// Share of packets that are duplicated, for example 0.1% or 0.001
    #[arg(long, requires = "tun", value_parser = parse_loss, default_value = "0%", value_name = "SHARE")]
    duplicate: f64,

    /// Round-trip time of the path; half of it is added in each direction
    #[arg(long, value_parser = parse_duration, default_value = "0", value_name = "TIME")]
    rtt: Duration,

    /// One-way delay towards the server [default: half of --rtt]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    delay_up: Option<Duration>,

    /// One-way delay towards the client [default: half of --rtt]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    delay_down: Option<Duration>,

    /// Jitter: each delay varies by up to this, in both directions
    #[arg(long, value_parser = parse_duration, default_value = "0", value_name = "TIME")]
    jitter: Duration,

    /// Bandwidth in each direction, shared by all connections, for example 100mbit [default:
    /// unlimited]
    #[arg(long, value_parser = parse_rate, value_name = "RATE")]
    rate: Option<u64>,

    /// Length of the queue in front of the bottleneck, as the time to drain it at --rate; packets
    /// beyond it are dropped, or delayed by the relay
    #[arg(long, value_parser = parse_duration, default_value = "50ms", value_name = "TIME")]
    queue: Duration,

    /// Packet loss, for example 0.1% or 0.001. Without --tun a loss appears as the delay of its
    /// retransmission
    #[arg(long, value_parser = parse_loss, default_value = "0%", value_name = "SHARE")]
    loss: f64,

    /// Outage from FROM to TO after the start, for example 10s..12s; `10s..` never ends. Repeatable
    #[arg(long, value_parser = parse_cut, value_name = "FROM..TO")]
    cut: Vec<Range<Duration>>,

    /// Do not delay the first bytes of a connection by the round trip of its handshake
    #[arg(long)]
    no_handshake: bool,

    /// Seed of the random numbers for jitter and loss
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    seed: u64,

    /// Print counters every second, on standard error
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
            reorder: self.reorder,
            duplicate: self.duplicate,
        }
    }

    fn paths(&self) -> (PathConfig, PathConfig) {
        let up = self.delay_up.unwrap_or(self.rtt / 2);
        let down = self.delay_down.unwrap_or(self.rtt - self.rtt / 2);
        (self.path(up), self.path(down))
    }

    fn relay(&self) -> anyhow::Result<RelayConfig> {
        let to = self
            .to
            .as_deref()
            .context("expected --to, the address that connections are forwarded to")?;
        let to = to
            .to_socket_addrs()
            .with_context(|| format!("--to {to}: expected HOST:PORT"))?
            .next()
            .with_context(|| format!("--to {to}: the name resolves to no address"))?;
        let (up, down) = self.paths();
        Ok(RelayConfig {
            listen: self.listen,
            up,
            down,
            handshake: !self.no_handshake,
            cuts: self.cut.clone(),
            seed: self.seed,
            ..RelayConfig::new(to)
        })
    }

    fn tunnel(&self) -> anyhow::Result<TunnelConfig> {
        ensure!(
            self.namespace_a != self.namespace_b,
            "expected two different network namespaces, got the same: a kernel does not route packets \
             between its own addresses through a device; set --namespace-a or --namespace-b"
        );
        let end = |namespace: &Option<String>, address: Option<Address>, option: &str| {
            Ok::<_, anyhow::Error>(TunnelEnd {
                namespace: namespace.as_deref().map(namespace_file),
                device: self.device.clone(),
                address: address.with_context(|| format!("{option} is missing"))?,
            })
        };
        let a = end(&self.namespace_a, self.address_a, "--address-a")?;
        let b = end(&self.namespace_b, self.address_b, "--address-b")?;
        let (up, down) = self.paths();
        let (cuts, seed) = (self.cut.clone(), self.seed);
        Ok(TunnelConfig { up, down, cuts, seed, ..TunnelConfig::new(a, b) })
    }

    /// Emulates a path until `wait` returns true; `wait` blocks for at most the given time.
    ///
    /// # Errors
    /// The path cannot be made.
    pub fn run(&self, wait: impl Fn(Option<Duration>) -> bool) -> anyhow::Result<()> {
        let (up, down) = self.paths();
        let delays = format!("{:?} there and {:?} back", up.delay, down.delay);
        let crossed = if self.tun {
            let config = self.tunnel()?;
            let (a, b) = (config.a.address.ip, config.b.address.ip);
            let tunnel = Tunnel::start(config).context("cannot start the tunnel")?;
            eprintln!("{a} -> {b}, {delays}");
            follow(&wait, self.progress, || tunnel.stats());
            tunnel.stop()
        } else {
            let config = self.relay()?;
            let to = config.to;
            let relay = Relay::start(config).context("cannot start the relay")?;
            eprintln!("{} -> {to}, {delays}", relay.local_addr());
            follow(&wait, self.progress, || relay.stats());
            relay.stop()
        };
        eprint!("{crossed}");
        Ok(())
    }
}

/// File of a namespace, given by its name in `ip netns` or by a path.
fn namespace_file(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { Path::new("/run/netns").join(name) }
}

/// Waits for the end signal; prints the counters every second if requested.
fn follow(wait: impl Fn(Option<Duration>) -> bool, progress: bool, stats: impl Fn() -> LinkStats) {
    let (mut then, mut at) = (stats(), Instant::now());
    while !wait(progress.then_some(Duration::from_secs(1))) {
        let now = stats();
        eprintln!("{}", now.since(&then, at.elapsed()));
        (then, at) = (now, Instant::now());
    }
}
