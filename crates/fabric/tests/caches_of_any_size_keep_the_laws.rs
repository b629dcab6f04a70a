//! From no cache to more lines than addresses, every scheme delivers everything in both models;
//! without lines, schemes that need caches send as NoCache does.

use fabric::{
    Config, Metrics, Model, Scheme, Simulation, Transport,
    topology::{GatewayRack, Memory, Topology},
    workload::Flow,
};

const VMS: u32 = 32;

fn topology() -> Topology {
    let gateways = vec![GatewayRack { rack: 0, gateways: 1 }, GatewayRack { rack: 3, gateways: 3 }];
    Topology::fat_tree(2, 2, 2, 2, 4, gateways).with_vms_per_server(4)
}

/// A flow from every VM to every other, some twice.
fn flows() -> Vec<Flow> {
    let flow = |id: u32| Flow {
        source: id * 7 % VMS,
        destination: (id * 7 + 4 + id % 28) % VMS,
        start_ns: u64::from(id) * 2_000,
        id,
        bytes: 1 + u64::from(id) * 37 % 4_000,
    };
    (1..=120).map(flow).collect()
}

fn run(topology: &Topology, config: &Config, scheme: Scheme) -> Metrics {
    let mut simulation =
        Simulation::new(config, topology, flows(), scheme, 3).expect("a simulation");
    while !simulation.step(u64::MAX).expect("laws hold").finished {}
    simulation.metrics().clone()
}

#[test]
fn every_scheme_delivers_everything() {
    for model in [Model::paper(), Model::published()] {
        for transport in [Transport::Cubic, Transport::Udp] {
            for cache_entries in [0, 1, 11, 13, 100_000] {
                for scheme in Scheme::all() {
                    let config = Config { model, transport, cache_entries, ..Config::default() };
                    let metrics = run(&topology(), &config, scheme);
                    let done = (metrics.flows_completed, metrics.in_flight, metrics.dropped);
                    assert_eq!(done, (120, 0, 0), "{scheme}, {cache_entries}, {transport:?}");
                }
            }
        }
    }
}

#[test]
fn without_lines_nothing_is_ever_found() {
    for model in [Model::paper(), Model::published()] {
        let config = Config { model, cache_entries: 0, ..Config::default() };
        let expected = run(&topology(), &config, Scheme::NoCache);
        for name in ["locallearning", "gwcache", "controller", "switchv2p", "switchv2p-tor-only"] {
            let metrics = run(&topology(), &config, name.parse().expect("a scheme"));
            let packets = |metrics: &Metrics| (metrics.sent, metrics.gateway_packets);
            assert_eq!(packets(&metrics), packets(&expected), "{name}");
            let hits: u64 = metrics.switches.iter().map(|switch| switch.hits).sum();
            assert_eq!(hits, 0, "{name}");
        }
        let bluebird = run(&topology(), &config, Scheme::Bluebird);
        assert!(bluebird.switches.iter().all(|switch| switch.hits == 0));
    }
}

#[test]
fn with_lines_for_everything_more_is_found_than_with_few() {
    for name in ["locallearning", "gwcache", "switchv2p"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        let hits = |cache_entries| {
            let config = Config { model: Model::published(), cache_entries, ..Config::default() };
            let metrics = run(&topology(), &config, scheme);
            metrics.switches.iter().map(|switch| switch.hits).sum::<u64>()
        };
        assert!(hits(100_000) > hits(12), "{name}");
    }
}

/// Cores without memory (§4, "heterogeneous memory allocation") never hit.
#[test]
fn memory_by_role_goes_where_it_is_said() {
    let memory = Memory { core: 0.0, spine: 0.0, gateway_spine: 0.0, ..Memory::default() };
    let topology = Topology { memory, ..topology() };
    let config = Config { model: Model::paper(), cache_entries: 1_000, ..Config::default() };
    let metrics = run(&topology, &config, "switchv2p".parse().expect("a scheme"));
    let hits = |range: std::ops::Range<usize>| {
        metrics.switches[range].iter().map(|switch| switch.hits).sum::<u64>()
    };
    assert_eq!(hits(0..8), 0, "cores and spines");
    assert!(hits(8..12) > 0, "ToRs");
}

/// Servers learn from received packets, as published: one-way senders receive nothing.
#[test]
fn one_way_datagrams_teach_ondemand_nothing() {
    let one_way: Vec<Flow> = (0..200)
        .map(|id| Flow {
            source: id % 8,
            destination: 16 + id % 16,
            start_ns: u64::from(id) * 500,
            id: 1 + id % 8,
            bytes: 1_000,
        })
        .collect();
    let config =
        Config { model: Model::published(), transport: Transport::Udp, ..Config::default() };
    let run = |scheme| {
        let mut simulation =
            Simulation::new(&config, &topology(), one_way.clone(), scheme, 1).expect("it runs");
        while !simulation.step(u64::MAX).expect("laws hold").finished {}
        simulation.metrics().clone()
    };
    assert_eq!(run(Scheme::OnDemand), run(Scheme::NoCache));
}
