//! A small tree of live switches, and its simulation.
#![allow(dead_code, clippy::print_stdout, reason = "not every test uses all of it")]

use fabric::{
    Config, Metrics, Migration, Model, Scheme, Simulation, Transport,
    topology::{GatewayRack, Topology},
    workload::Flow,
};
use policy::v2p::Rules;
use switch::{object, v2p::plane::Counts};
use testbed::v2p::{
    Testbed, Tunnel, counter,
    layout::Layout,
    namespaces::{NO_DEVICE, Overlay},
};

pub(crate) const MACHINES_PER_SERVER: u32 = 3;
/// Lines of each cache: a power of two, less than the number of VMs.
pub(crate) const ENTRIES: u32 = 4;
/// Interval between datagrams, long enough for all effects of the previous one.
pub(crate) const APART_NS: u64 = 1_000_000;

/// 13 switches of all roles: 4 pods of 2 racks and one spine, and one core. There is one path
/// between any two hosts, so that no hash decides.
pub(crate) fn tree() -> Topology {
    let gateways = [0, 7].map(|rack| GatewayRack { rack, gateways: 1 }).to_vec();
    Topology::fat_tree(4, 2, 2, 1, 1, gateways).with_vms_per_server(MACHINES_PER_SERVER)
}

/// FT4: 20 switches, two spines in each pod, four cores.
pub(crate) fn ft4() -> Topology {
    let gateways = [0, 7].map(|rack| GatewayRack { rack, gateways: 1 }).to_vec();
    Topology::fat_tree(4, 2, 2, 2, 4, gateways).with_vms_per_server(MACHINES_PER_SERVER)
}

pub(crate) fn simulated(
    topology: &Topology,
    model: Model,
    flows: Vec<Flow>,
    migrations: Vec<Migration>,
) -> Metrics {
    let config = Config {
        model,
        cache_entries: u64::from(ENTRIES * topology.switches()),
        transport: Transport::Udp,
        learn_probability: 1.0,
        migrations,
        ..Config::default()
    };
    let scheme = "switchv2p".parse::<Scheme>().expect("a scheme");
    let mut run = Simulation::new(&config, topology, flows, scheme, 1).expect("it fits");
    while !run.step(1 << 20).expect("no law breaks").finished {}
    run.metrics().clone()
}

/// `None`, with the reason printed, without a compiler or without the right to load programs. CI
/// has both.
pub(crate) fn live(topology: Topology, tunnel: Tunnel, model: Model) -> Option<Testbed> {
    built(topology, tunnel, Overlay::Device, model)
}

/// As `live`, for probes only: the kernel needs no tunnel device.
pub(crate) fn probed(topology: Topology, tunnel: Tunnel, model: Model) -> Option<Testbed> {
    built(topology, tunnel, Overlay::Probes, model)
}

fn built(topology: Topology, tunnel: Tunnel, overlay: Overlay, model: Model) -> Option<Testbed> {
    if object::V2P.is_none() || !rustix::process::geteuid().is_root() {
        println!("SKIPPED: expected a build with clang, and root");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"));
        return None;
    }
    let rules = Rules::full(1.0, 12_000, model.switch);
    match Testbed::build(Layout::new(topology), tunnel, overlay, ENTRIES, rules) {
        Ok(testbed) => Some(testbed),
        Err(error) if error.to_string() == NO_DEVICE => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

pub(crate) fn sum(counts: &[Counts], name: &str) -> u64 {
    counts.iter().map(|counts| counts[counter(name)]).sum()
}
