//! `enroute switch v2p`: SwitchV2P in the kernel's data plane.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use notation::parse_duration;
use switch::v2p::{
    attached,
    bits::COUNTS,
    config::ENTRIES_MAX,
    explain::explain,
    plane::{Host, Plane, read_line},
    saved::{LAYOUT, ROLES, Saved},
};
use testbed::command;

use super::{frame_of, print, tell_detached};
use crate::{
    cli::signal::EndSignal,
    switch::{mount, remove, save, saved},
};

const EXAMPLES: &str = "\
EXAMPLES:
  A ToR with two servers and two uplinks, as switch 12:
    enroute switch v2p attach --role tor --id 12 --pod 10.0.0.0-10.0.255.255 \\
      --gateway 10.0.0.200 --gateway 10.3.7.200 \\
      --interface eth2 --interface eth3 --host eth0=10.0.1.1 --host eth1=10.0.1.2

  A core, as switch 0:
    enroute switch v2p attach --role core --id 0 --gateway 10.0.0.200 --gateway 10.3.7.200 \\
      --interface eth0 --interface eth1 --interface eth2 --interface eth3

  Show the cache and the counters; show what changes, every second:
    enroute switch v2p status
    enroute switch v2p top

  Run a captured packet through the program and print what it did:
    enroute switch v2p explain packet.pcap

  A fat tree of 20 switches in network namespaces on this machine, with traffic for 5 seconds:
    enroute switch v2p testbed
    enroute switch v2p testbed --tunnel ipip --entries 4 --learn-probability 1
    enroute switch v2p testbed --migrate

  Remove the programs and the cache:
    enroute switch v2p detach

Routes, neighbours and ECMP are the kernel's: enable net.ipv4.ip_forward, and
net.ipv4.fib_multipath_hash_policy=1 for ECMP by ports. See docs/guide/switch-v2p.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Attach the programs of one switch to interfaces, with an empty cache; they stay attached
    Attach(Attach),
    /// Detach the programs from all interfaces and remove the cache
    Detach,
    /// Show role, cache and counters
    Status,
    /// Show the counters, every second
    Top {
        /// Duration in seconds; 0 runs until interrupted
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        seconds: u64,
    },
    /// Run one packet through the program, as if another switch had sent it, and print what it did
    Explain {
        /// Pcap file, of which the first packet is used, or an Ethernet frame as hexadecimal digits
        packet: String,
    },
    /// Run a fat tree of switches in network namespaces, with traffic
    Testbed(command::v2p::Arguments),
}

#[derive(Debug, Args)]
struct Attach {
    /// Category of the switch (Table 1 of the paper)
    #[arg(long, value_parser = ROLES.map(|(name, _)| name))]
    role: String,

    /// Identifier of the switch, unique in the fabric: 0 to 65534
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(0..=65_534))]
    id: u16,

    /// Address of the switch with identifier 0; switch N has the N-th address after it. Assign each
    /// switch its address on an interface, and route to it in the fabric
    #[arg(long, value_name = "ADDRESS", default_value = "10.255.0.0")]
    first_address: Ipv4Addr,

    /// Maximum number of addresses in the cache
    #[arg(long, value_name = "COUNT", default_value_t = 65_536,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ENTRIES_MAX)))]
    entries: u32,

    /// First and last physical address of the pod, for spines: a hit for a packet that leaves the
    /// pod is promoted to the cores
    #[arg(long, value_name = "FIRST-LAST", value_parser = range)]
    pod: Option<(Ipv4Addr, Ipv4Addr)>,

    /// Physical address of a gateway. Repeatable
    #[arg(long, value_name = "ADDRESS", required = true)]
    gateway: Vec<Ipv4Addr>,

    /// Interface towards another switch. Repeatable
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,

    /// Interface towards a server and the server's physical address, for ToRs. Learning and
    /// invalidation packets that arrive there are dropped. Repeatable
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = host)]
    host: Vec<(String, Ipv4Addr)>,

    /// VXLAN network identifier of the virtual network [default: 42]
    #[arg(long, value_name = "NUMBER", conflicts_with = "ipip",
          value_parser = clap::value_parser!(u32).range(0..1 << 24))]
    network: Option<u32>,

    /// Carry virtual packets in IP-in-IP instead of VXLAN
    #[arg(long)]
    ipip: bool,

    /// Probability that a gateway ToR sends a learning packet for a new mapping, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.005)]
    learn_probability: f64,

    /// Interval in which a ToR sends a switch at most one invalidation packet: the fabric's base
    /// round trip
    #[arg(long, value_name = "TIME", default_value = "12us", value_parser = parse_duration)]
    base_rtt: Duration,

    /// Follow the rules of the authors' published code instead of the paper's text
    #[arg(long)]
    published: bool,
}

/// Default of `--network`.
const NETWORK: u32 = 42;

fn range(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), String> {
    let expected =
        || format!("expected FIRST-LAST, for example 10.0.0.0-10.0.255.255, got {text:?}");
    let (first, last) = text.split_once('-').ok_or_else(expected)?;
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(expected()),
    }
}

fn host(text: &str) -> Result<(String, Ipv4Addr), String> {
    let expected = || format!("expected NAME=ADDRESS, for example eth0=10.0.1.1, got {text:?}");
    let (name, address) = text.split_once('=').ok_or_else(expected)?;
    Ok((name.to_owned(), address.parse().map_err(|_| expected())?))
}

pub(super) fn run(beside_pins: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let pins = &beside(beside_pins);
    match &arguments.action {
        Action::Attach(arguments) => attach(pins, arguments),
        Action::Detach => {
            let interfaces = attached::interfaces(pins);
            remove(pins)?;
            tell_detached(&interfaces, beside_pins);
            Ok(())
        }
        Action::Status => status(pins),
        Action::Top { seconds } => top(pins, *seconds),
        Action::Explain { packet } => {
            let frame = frame_of(packet)?;
            print(&explain(&mut open(pins)?, &frame)?);
            Ok(())
        }
        Action::Testbed(testbed) => testbed.run(EndSignal::flag),
    }
}

/// The pins of NetCache's data plane are removed with their directory.
fn beside(pins: &Path) -> PathBuf {
    let mut name = pins.file_name().unwrap_or_default().to_owned();
    name.push("-v2p");
    pins.with_file_name(name)
}

fn attach(pins: &Path, arguments: &Attach) -> anyhow::Result<()> {
    let is_tor = matches!(arguments.role.as_str(), "tor" | "gateway-tor");
    ensure!(
        is_tor || arguments.host.is_empty(),
        "--host: expected at a ToR only, found role {}",
        arguments.role
    );
    ensure!(
        !(arguments.interface.is_empty() && arguments.host.is_empty()),
        "expected at least one --interface or --host"
    );
    ensure!(
        (0.0..=1.0).contains(&arguments.learn_probability),
        "--learn-probability: expected 0 to 1, got {}",
        arguments.learn_probability
    );
    let is_spine = matches!(arguments.role.as_str(), "spine" | "gateway-spine");
    if is_spine && arguments.pod.is_none() {
        bail!("--pod: expected at a spine, which promotes for packets that leave its pod");
    }
    let own = u32::from(arguments.first_address).checked_add(arguments.id.into());
    let own = Ipv4Addr::from(own.with_context(|| {
        let first = arguments.first_address;
        format!("--first-address: expected room for switch {} after it, got {first}", arguments.id)
    })?);
    let parameters = Saved {
        layout: LAYOUT,
        id: arguments.id,
        role: arguments.role.clone(),
        first_address: arguments.first_address,
        entries: arguments.entries,
        pod: arguments.pod.unwrap_or((own, own)),
        network: (!arguments.ipip).then_some(arguments.network.unwrap_or(NETWORK)),
        learn_probability: arguments.learn_probability,
        base_rtt_ns: arguments.base_rtt.as_nanos() as u64,
        published: arguments.published,
    };
    mount(pins)?;
    remove(pins)?;
    if let Err(error) = start(pins, arguments, &parameters) {
        let _ = remove(pins);
        return Err(error);
    }
    eprintln!("switch {} ({}) at {own}; it stays attached", arguments.id, arguments.role);
    Ok(())
}

/// Loads the programs and attaches them to all interfaces. After an error, they are attached to
/// some.
fn start(pins: &Path, arguments: &Attach, parameters: &Saved) -> anyhow::Result<()> {
    let config = parameters.config().context("parameters of this build")?;
    fs::create_dir_all(pins).with_context(|| format!("cannot create {}", pins.display()))?;
    let mut plane = Plane::pinned(config, pins)?;
    for gateway in &arguments.gateway {
        plane.add_gateway(*gateway)?;
    }
    for (name, address) in &arguments.host {
        let interface = switch::attach::number_of(name)?;
        let is_gateway = arguments.gateway.contains(address);
        plane.add_host(Host { address: *address, interface, is_gateway })?;
    }
    save(parameters, pins)?;
    let hosts = arguments.host.iter().map(|(name, _)| name);
    for name in arguments.interface.iter().chain(hosts) {
        plane.attach(name)?.pin(pins)?;
        eprintln!("attached to {name}");
    }
    Ok(())
}

fn parameters(pins: &Path) -> anyhow::Result<Saved> {
    saved(pins, "enroute switch v2p attach", |saved: &Saved| saved.config().is_some())
}

fn open(pins: &Path) -> anyhow::Result<Plane> {
    let config = parameters(pins)?.config().context("parameters of this build")?;
    Ok(Plane::pinned(config, pins)?)
}

fn status(pins: &Path) -> anyhow::Result<()> {
    let plane = open(pins)?;
    let parameters = parameters(pins)?;
    let used = plane.lines.iter().filter(|line| line.load(Relaxed) != 0).count();
    let in_use = plane.lines.iter().filter(|line| read_line(line).1).count();
    let mut out = format!(
        "switch         {} ({}), {}\nlines          {used} of {}, {in_use} with the access bit\n",
        parameters.id,
        parameters.role,
        plane.config().address(),
        parameters.entries,
    );
    for ((name, meaning), count) in COUNTS.iter().zip(plane.counts()?) {
        out.push_str(&format!("{name:<14} {count:>12}  {meaning}\n"));
    }
    print(&out);
    Ok(())
}

fn top(pins: &Path, limit: u64) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    let plane = open(pins)?;
    let mut before = plane.counts()?;
    let mut seconds = 0;
    while !stop.load(Relaxed) && (limit == 0 || seconds < limit) {
        std::thread::sleep(Duration::from_secs(1));
        seconds += 1;
        let counts = plane.counts()?;
        let used = plane.lines.iter().filter(|line| line.load(Relaxed) != 0).count();
        let mut out = format!("lines {used}");
        for ((name, _), (now, before)) in COUNTS.iter().zip(counts.iter().zip(before)) {
            if *now > before {
                out.push_str(&format!("  {name} {}/s", now - before));
            }
        }
        print(&(out + "\n"));
        before = counts;
    }
    Ok(())
}
