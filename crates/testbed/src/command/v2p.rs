//! `enroute switch v2p testbed`: SwitchV2P switches in network namespaces.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::ensure;
use clap::Args;
use fabric::topology::{GatewayRack, Topology};
use policy::v2p::{Quirks, Role, Rules};
use serde_json::json;

use super::Stop;
use crate::{
    report::Table,
    v2p::{
        Testbed, Tunnel, counter,
        layout::Layout,
        load::{self, Load},
        migration::{self, Moved},
        namespaces::Overlay,
    },
};

/// The base round trip of the paper's topologies (§5).
const BASE_RTT_NS: u64 = 12_000;

/// The old one, the new one, and one that sends.
const MOVE_SERVERS_MIN: u32 = 3;
/// The machine that moves with --migrate, and the interval of each sender.
const MOVES: u32 = 1;
const EVERY: Duration = Duration::from_millis(1);

#[derive(Debug, Args)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// Number of pods
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    pods: u32,

    /// Number of racks in a pod
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    racks: u32,

    /// Number of spines in a pod
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    spines: u32,

    /// Number of cores, a multiple of --spines
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    cores: u32,

    /// Number of servers in a rack
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    servers: u32,

    /// Number of virtual machines on a server
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    machines: u32,

    /// Number of gateways in the first and in the last rack
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    gateways: u32,

    /// Number of lines of each cache
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    entries: u32,

    /// How virtual packets are carried
    #[arg(long, value_enum, default_value_t = Tunnel::Vxlan)]
    tunnel: Tunnel,

    /// Probability of a learning packet, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.005)]
    learn_probability: f64,

    /// Follow the rules of the authors' published code instead of the paper's text
    #[arg(long)]
    published: bool,

    /// Number of pairs of machines that talk to each other, each by one TCP stream and echoed
    /// datagrams
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pairs: u32,

    /// Duration of the traffic, in seconds; 0 sends none
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    seconds: u64,

    /// Move a machine to another server during the traffic, to which one machine of every other
    /// server sends a datagram each millisecond (Table 4 of the paper), instead of streams and
    /// echoes
    #[arg(long)]
    migrate: bool,

    /// Send no invalidation packets
    #[arg(long)]
    no_invalidations: bool,

    /// Keep the switches running until interrupted, and print how to enter a server
    #[arg(long)]
    keep: bool,
}

impl Arguments {
    fn topology(&self) -> anyhow::Result<Topology> {
        let last = (self.pods * self.racks).saturating_sub(1);
        let racks = if last == 0 { vec![0] } else { vec![0, last] };
        let gateways =
            racks.into_iter().map(|rack| GatewayRack { rack, gateways: self.gateways }).collect();
        let (pods, racks, spines) = (self.pods, self.racks, self.spines);
        let tree = Topology::fat_tree(pods, racks, self.servers, spines, self.cores, gateways);
        tree.check()?;
        ensure!(
            (0.0..=1.0).contains(&self.learn_probability),
            "--learn-probability: expected 0 to 1, got {}",
            self.learn_probability
        );
        let servers = tree.servers();
        ensure!(
            !self.migrate || servers >= MOVE_SERVERS_MIN,
            "--migrate: expected at least {MOVE_SERVERS_MIN} servers (the old one, the new one and a sender), got {servers}"
        );
        Ok(tree.with_vms_per_server(self.machines))
    }

    fn rules(&self) -> Rules {
        Rules {
            invalidation: !self.no_invalidations,
            ..Rules::full(self.learn_probability, BASE_RTT_NS, Quirks::all(self.published))
        }
    }

    /// Runs the tree, and traffic through it.
    ///
    /// # Errors
    /// The arguments are invalid, the process lacks privileges, or this build has no data plane.
    #[allow(clippy::print_stdout, reason = "what was asked for")]
    pub fn run(&self, stop: Stop) -> anyhow::Result<()> {
        let layout = Layout::new(self.topology()?);
        let stop = stop()?;
        eprintln!(
            "starting {} switches, {} servers and {} gateways",
            layout.switches(),
            layout.topology.servers(),
            layout.gateways().len()
        );
        let (tunnel, overlay) = (self.tunnel, Overlay::Device);
        let mut testbed = Testbed::build(layout, tunnel, overlay, self.entries, self.rules())?;
        let duration = Duration::from_secs(self.seconds);
        if self.migrate {
            let to = testbed.layout().topology.servers() - 1;
            let moved = migration::run(&mut testbed, (MOVES, to), EVERY, duration, &stop)?;
            println!("{}", move_costs(&moved));
        } else if self.seconds > 0 {
            let pairs = pairs(testbed.layout(), self.pairs);
            let load = load::run(&testbed, &pairs, duration, &stop)?;
            println!("{}", traffic(&load, duration));
        }
        println!("{}", layers(&testbed)?);
        if self.keep {
            let layout = testbed.layout();
            let server = layout.home(0);
            eprintln!(
                "machine {} is in: nsenter --net={} sh; machine {} is another; Ctrl-C ends all",
                layout.machine(0),
                testbed.namespaces().path(server).display(),
                layout.machine(layout.topology.vms() - 1)
            );
            while !stop.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
            }
            println!("{}", layers(&testbed)?);
        }
        Ok(())
    }
}

/// Machines of different racks, none of which is in two pairs as a receiver.
fn pairs(layout: &Layout, number: u32) -> Vec<(u32, u32)> {
    let vms = layout.topology.vms();
    let pair = |vm: u32| (vm, (vm + vms / 2) % vms);
    (0..number.min(vms))
        .map(pair)
        .filter(|(from, to)| layout.home(*from) != layout.home(*to))
        .collect()
}

fn traffic(load: &Load, duration: Duration) -> Table<2> {
    let seconds = duration.as_secs_f64();
    let mut table = Table::new(["traffic", "value"]);
    table.row([json!("TCP Mbit/s"), json!(load.stream_bytes as f64 * 8e-6 / seconds)]);
    table.row([json!("datagrams echoed"), json!(load.echoes)]);
    table.row([json!("datagrams lost"), json!(load.lost)]);
    let mean = load.round_trip_ns as f64 / load.echoes.max(1) as f64 / 1e3;
    table.row([json!("mean round trip us"), json!(mean)]);
    table
}

fn move_costs(moved: &Moved) -> Table<2> {
    let ms = |time: Duration| json!(time.as_secs_f64() * 1e3);
    let mut table = Table::new(["move of a machine", "value"]);
    for (what, value) in [
        ("datagrams sent", json!(moved.sent)),
        ("datagrams received", json!(moved.received)),
        ("through gateways", json!(moved.gateway_packets)),
        ("misdelivered", json!(moved.misdelivered)),
        ("last misdelivered, ms after the move", ms(moved.last_misdelivered)),
        ("first at the new server, ms", ms(moved.first_correct)),
        ("invalidation packets", json!(moved.invalidations)),
    ] {
        table.row([json!(what), value]);
    }
    table
}

/// Counters of the switches by role, then of the gateways and servers.
fn layers(testbed: &Testbed) -> anyhow::Result<Table<6>> {
    let counts = testbed.counts()?;
    let layout = testbed.layout();
    let mut table =
        Table::new(["nodes", "packets", "hits", "learning", "invalidation", "misdelivered"]);
    let row = |what: &str, nodes: &[usize]| {
        let sum = |name: &str| {
            let sum: u64 = nodes.iter().map(|node| counts[*node][counter(name)]).sum();
            json!(sum)
        };
        let names = ["PACKETS", "HITS", "LEARNING", "INVALIDATIONS", "MISDELIVERED"];
        let [packets, hits, learning, invalidation, misdelivered] = names.map(sum);
        [json!(what), packets, hits, learning, invalidation, misdelivered]
    };
    for (what, role) in [
        ("gateway ToRs", Role::GatewayTor),
        ("ToRs", Role::Tor),
        ("gateway spines", Role::GatewaySpine),
        ("spines", Role::Spine),
        ("cores", Role::Core),
    ] {
        let nodes = (0..layout.switches()).filter(|node| layout.roles()[*node] == role);
        table.row(row(what, &nodes.collect::<Vec<_>>()));
    }
    table.row(row("gateways", &layout.gateways().collect::<Vec<_>>()));
    let servers: Vec<usize> = (layout.switches()..layout.gateways().start).collect();
    table.row(row("servers", &servers));
    Ok(table)
}
