//! Invariants of every run, whatever the scheme: the same seed gives the same result, every packet
//! is accounted for, every flow ends, and invalid configurations are refused.

use fabric::{
    Config, Error, FlowResult, Metrics, Migration, Model, Placement, Scheme, Simulation, Transport,
    topology::{GatewayRack, Topology},
    workload::Flow,
};

const VMS: u64 = 64;

fn topology() -> Topology {
    let gateways = vec![GatewayRack { rack: 1, gateways: 2 }];
    Topology::fat_tree(2, 2, 4, 2, 4, gateways).with_vms_per_server(4)
}

/// Flows between machines drawn from a small generator, some within a server.
fn flows(count: u64, bytes: impl Fn(u64) -> u64) -> Vec<Flow> {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let flow = |id: u64| Flow {
        source: draw(VMS) as u32,
        destination: draw(VMS) as u32,
        start_ns: draw(500_000),
        id: id as u32,
        bytes: bytes(id),
    };
    (1..=count).map(flow).collect()
}

fn run(
    config: &Config,
    topology: &Topology,
    flows: Vec<Flow>,
    scheme: Scheme,
    slice: u64,
) -> Metrics {
    let mut simulation = Simulation::new(config, topology, flows, scheme, 7).expect("a simulation");
    while !simulation.step(slice).expect("laws hold").finished {}
    simulation.metrics().clone()
}

fn config(model: Model, transport: Transport) -> Config {
    Config { model, transport, cache_entries: 64, ..Config::default() }
}

#[test]
fn every_scheme_delivers_everything_in_both_models_whatever_the_slices() {
    for model in [Model::paper(), Model::published()] {
        for transport in [Transport::Cubic, Transport::Dctcp, Transport::Udp] {
            let config = config(model, transport);
            for scheme in Scheme::all() {
                let flows = flows(200, |id| 1 + id * 97 % 8_000);
                let whole = run(&config, &topology(), flows.clone(), scheme, u64::MAX);
                let sliced = run(&config, &topology(), flows, scheme, 1_000);
                assert_eq!(whole, sliced, "{scheme}, {transport:?}");
                assert_eq!(whole.in_flight, 0, "{scheme}, {transport:?}");
                assert_eq!(
                    (whole.flows, whole.flows_completed),
                    (200, 200),
                    "{scheme}, {transport:?}"
                );
                assert_eq!(whole.sent, whole.received + whole.repeated + whole.dropped, "{scheme}");
            }
        }
    }
}

#[test]
fn a_datagram_to_its_own_server_never_leaves_it() {
    // VMs 0 to 3 are on one server; the reference's stack delivers such packets locally.
    let flow = |id, destination, start_ns| Flow { source: 0, destination, start_ns, id, bytes: 64 };
    for scheme in Scheme::all() {
        let flows = vec![flow(1, 3, 1_000), flow(2, 2, 2_000)];
        let config = config(Model::published(), Transport::Udp);
        let metrics = run(&config, &topology(), flows, scheme, u64::MAX);
        assert_eq!(
            (metrics.sent, metrics.received, metrics.gateway_packets),
            (2, 2, 0),
            "{scheme}"
        );
        assert_eq!((metrics.packet_latency_ns, metrics.packet_hops), (0, 0), "{scheme}");
    }
}

/// Means over flows exclude those without any arrival; a flow is complete if no datagram is
/// missing.
#[test]
fn a_flow_that_loses_datagrams_is_not_complete() {
    // Flow 1 has one datagram, which fills the port; flow 2 loses its only one, flow 3 one of two.
    let small = Topology { buffer_bytes: 1, ..topology() };
    let flow = |id, start_ns| Flow { source: 0, destination: 60, start_ns, id, bytes: 64 };
    let flows = vec![flow(1, 0), flow(2, 1), flow(3, 2), flow(3, 100_000)];
    let config = config(Model::paper(), Transport::Udp);
    let metrics = run(&config, &small, flows, Scheme::Direct, u64::MAX);
    assert_eq!((metrics.sent, metrics.received, metrics.dropped), (4, 2, 2));
    assert_eq!((metrics.flows, metrics.flows_received, metrics.flows_completed), (3, 2, 1));
    let times: Vec<u64> = metrics.per_flow.iter().filter_map(FlowResult::completion_ns).collect();
    assert_eq!(times.len(), 2);
    let mean_ns = (times[0] + times[1]) as f64 / 2.0;
    assert!((metrics.flow_completion_ns_mean() - mean_ns).abs() < 1e-9);
}

/// OnDemand's 40 µs for the first packet from a server's cache are not paid by a local packet.
#[test]
fn a_packet_to_its_own_server_pays_nothing() {
    let flow =
        |id, source, destination, start_ns| Flow { source, destination, start_ns, id, bytes: 64 };
    // The first two teach the server of VM 0 the locations of VM 3, its own, and VM 60; the third
    // needs no query, the fourth leaves the server and pays.
    let flows = vec![
        flow(1, 3, 0, 1_000),
        flow(2, 60, 0, 2_000),
        flow(3, 0, 3, 400_000),
        flow(4, 0, 60, 500_000),
    ];
    let config = config(Model::published(), Transport::Udp);
    let metrics = run(&config, &topology(), flows, Scheme::OnDemand, u64::MAX);
    let latency = |flow: usize| {
        let result = metrics.per_flow[flow];
        result.last_received_ns - result.first_sent_ns
    };
    assert_eq!((latency(0), latency(2)), (0, 0));
    assert!((45_000..50_000).contains(&latency(3)), "{}", latency(3));
}

#[test]
fn full_buffers_drop_and_tcp_still_delivers() {
    for transport in [Transport::Cubic, Transport::Dctcp] {
        // 60 flows into one server through buffers of 30 packets.
        let small = Topology { buffer_bytes: 30 * 1_106, ..topology() };
        let incast = |id: u64| Flow {
            source: (id % 60) as u32,
            destination: 63,
            start_ns: id * 10,
            id: id as u32,
            bytes: 40_000,
        };
        let metrics = run(
            &config(Model::paper(), transport),
            &small,
            (0..60).map(incast).collect(),
            Scheme::Direct,
            5_000,
        );
        assert!(metrics.dropped > 0, "{transport:?}");
        assert_eq!(metrics.flows_completed, 60, "{transport:?}");
        assert_eq!(metrics.in_flight, 0);
    }
}

/// A wake-up that an earlier one has replaced sets no other: otherwise each loss would add one for
/// ever, and a congested run would consist of nothing else.
#[test]
fn wake_ups_do_not_multiply() {
    let narrow = Topology { buffer_bytes: 6_000, ..topology() };
    // 2,000 flows into one server, so that most of them wait for their timers again and again.
    let incast = |flow: Flow| Flow { source: flow.source % 60, destination: 63, ..flow };
    for model in [Model::paper(), Model::published()] {
        let config = config(model, Transport::Cubic);
        let flows = flows(2_000, |_| 500_000).into_iter().map(incast).collect();
        let metrics = run(&config, &narrow, flows, Scheme::Direct, u64::MAX);
        assert!(metrics.dropped > 100_000, "{}", metrics.dropped);
        let hops: u64 = metrics.switches.iter().map(|switch| switch.packets).sum();
        // A packet is one event at each switch, another where it waits.
        assert!(metrics.events < 2 * hops, "{} events for {hops} hops", metrics.events);
    }
}

#[test]
fn dctcp_keeps_queues_shorter_than_cubic() {
    let incast = |id: u64| Flow {
        source: id as u32 * 4,
        destination: 63,
        start_ns: 0,
        id: id as u32,
        bytes: 2_000_000,
    };
    let [cubic, dctcp] = [Transport::Cubic, Transport::Dctcp].map(|transport| {
        let flows = (0..8).map(incast).collect();
        run(&config(Model::paper(), transport), &topology(), flows, Scheme::Direct, u64::MAX)
    });
    assert!(dctcp.packet_latency_ns_mean() < cubic.packet_latency_ns_mean());
}

#[test]
fn a_machine_that_moves_keeps_its_connections() {
    for model in [Model::paper(), Model::published()] {
        for name in [
            "nocache",
            "locallearning",
            "gwcache",
            "bluebird",
            "ondemand",
            "direct",
            "switchv2p",
            "switchv2p-no-invalidations",
        ] {
            let scheme: Scheme = name.parse().expect("a scheme");
            let config = Config {
                migrations: (0..3_u32)
                    .map(|move_to| Migration {
                        vm: 60,
                        server: move_to,
                        at_ns: 200_000 + 30_000 * u64::from(move_to),
                    })
                    .collect(),
                ..config(model, Transport::Cubic)
            };
            let to_the_mover = |id: u64| Flow {
                source: 8 + id as u32,
                destination: 60,
                start_ns: id * 1_000,
                id: id as u32,
                bytes: 500_000,
            };
            let metrics =
                run(&config, &topology(), (0..8).map(to_the_mover).collect(), scheme, u64::MAX);
            assert_eq!(metrics.flows_completed, 8, "{name}");
            assert!(metrics.misdelivered > 0, "{name}");
        }
    }
}

#[test]
fn a_controller_places_what_caches_hold_and_reads_what_passed() {
    let scheme = Scheme::Controller;
    let config = config(Model::paper(), Transport::Cubic);
    let flow = Flow { source: 0, destination: 60, start_ns: 100_000, id: 1, bytes: 5_000 };
    let mut simulation =
        Simulation::new(&config, &topology(), vec![flow], scheme, 1).expect("a simulation");
    // Cores 0 to 3, spines 4 to 7, ToRs 8 to 11: the sender's and the receiver's.
    let placements = [(8, 60), (11, 0)].map(|(switch, vm)| Placement { switch, vms: vec![vm] });
    simulation.place(&placements).expect("it fits");
    while !simulation.step(u64::MAX).expect("laws hold").finished {}
    let metrics = simulation.metrics().clone();
    assert_eq!(metrics.gateway_packets, 0);
    assert_eq!(metrics.switches[8].hits + metrics.switches[11].hits, metrics.sent);
    let traffic = simulation.take_traffic();
    let packets: u64 = traffic.iter().map(|entry| entry.3).sum();
    assert_eq!(packets, metrics.sent);
    assert_eq!((traffic[0].0, traffic[0].1), (0, 60));
    let overflow = Placement { switch: 8, vms: (0..63).collect() };
    assert!(matches!(simulation.place(&[overflow]), Err(Error::Config { .. })));
}

#[test]
fn samples_add_up() {
    let config = Config { sample_interval_ns: 50_000, ..config(Model::paper(), Transport::Cubic) };
    let metrics = run(&config, &topology(), flows(100, |_| 3_000), Scheme::NoCache, u64::MAX);
    let last = metrics.samples.last().expect("samples");
    assert!(metrics.samples.is_sorted_by_key(|sample| sample.sent));
    assert_eq!((last.sent, last.received), (metrics.sent, metrics.received));
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let config = config(Model::paper(), Transport::Cubic);
    let refuse = |topology: &Topology, flow: Flow, scheme| {
        Simulation::new(&config, topology, vec![flow], scheme, 1).expect_err("refused").to_string()
    };
    let flow = Flow { source: 0, destination: 1, start_ns: 0, id: 1, bytes: 1 };
    let no_gateways = Topology { gateways: Vec::new(), ..topology() };
    for (error, words) in [
        (
            refuse(&topology(), Flow { destination: 64, ..flow }, Scheme::Direct),
            "flow 0: destination: expected a VM number below 64, got 64",
        ),
        (
            refuse(&topology(), Flow { bytes: 0, ..flow }, Scheme::Direct),
            "flow 0: bytes: expected 1 to 4000000000, got 0",
        ),
        (
            refuse(&no_gateways, flow, Scheme::NoCache),
            "topology: gateways: expected gateways: nocache sends through them, got none",
        ),
        (
            refuse(&Topology { cores: 3, ..topology() }, flow, Scheme::Direct),
            "topology: cores: expected a multiple of spines_per_pod, got 3",
        ),
    ] {
        assert_eq!(error, words);
    }
    let unknown = "switchv3p".parse::<Scheme>().expect_err("unknown").to_string();
    assert!(
        unknown.starts_with("unknown scheme \"switchv3p\": expected one of nocache, "),
        "{unknown}"
    );
}
