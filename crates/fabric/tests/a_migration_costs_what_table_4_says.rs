//! Table 4 of the paper, with the results of the authors' simulator: 64 senders, one VM that moves.

use fabric::{
    Config, Metrics, Migration, Model, Scheme, Simulation, Transport, topology::*, workload::Flow,
};

const SENDERS: u32 = 64;
const DATAGRAMS: u64 = 1_000;
const MOVING: u32 = 5_200;

/// The incast trace: one datagram per microsecond from the first VM of each of 64 servers.
fn incast() -> Vec<Flow> {
    let sender = |server: u32| {
        (0..DATAGRAMS).map(move |tick| Flow {
            source: server * 80,
            destination: MOVING,
            start_ns: tick * 1_000,
            id: server * 80 + 1,
            bytes: 64,
        })
    };
    (0..SENDERS).flat_map(sender).collect()
}

fn run(scheme: &str, seed: u64) -> Metrics {
    let gateways = [0, 10, 20, 31].map(|rack| GatewayRack { rack, gateways: 1 }).to_vec();
    let topology = Topology { gateways, ..Topology::ft8_10k() };
    let config = Config {
        model: Model::published(),
        cache_entries: 12 * 80,
        transport: Transport::Udp,
        migrations: vec![Migration { vm: MOVING, server: 68, at_ns: 500_000 }],
        ..Config::default()
    };
    let scheme: Scheme = scheme.parse().expect("a scheme");
    let mut simulation =
        Simulation::new(&config, &topology, incast(), scheme, seed).expect("a simulation");
    while !simulation.step(1_000_000).expect("laws hold").finished {}
    simulation.metrics().clone()
}

fn within(what: &str, got: f64, expected: f64, tolerance: f64) {
    assert!((got / expected - 1.0).abs() <= tolerance, "{what}: expected {expected}, got {got}");
}

#[test]
fn without_random_draws_every_count_matches() {
    let gateway = run("nocache", 1);
    assert_eq!((gateway.gateway_packets, gateway.misdelivered), (64_000, 2_944));
    assert_eq!(gateway.last_misdelivered_ns, 545_611);
    within("latency", gateway.packet_latency_ns_mean(), 52_795.0, 0.000_1);
    within("hops", gateway.packet_hops_mean(), 9.919, 0.000_1);
    within("first packets", gateway.first_packet_latency_ns_mean(), 52_107.0, 0.000_1);
    let hosts = run("ondemand", 1);
    assert_eq!((hosts.gateway_packets, hosts.misdelivered), (0, 32_384));
    // The reference prints six digits.
    assert_eq!(hosts.last_misdelivered_ns / 10, 100_559);
    within("latency", hosts.packet_latency_ns_mean(), 13_445.0, 0.000_1);
    within("hops", hosts.packet_hops_mean(), 6.518, 0.000_1);
    within("first packets", hosts.first_packet_latency_ns_mean(), 7_309.0, 0.000_1);
}

/// A row of the reference's table; the random draws are the reference's too.
#[derive(Debug, PartialEq)]
struct Row {
    gateway_packets: u64,
    latency_ns: u64,
    last_misdelivered_10ns: u64,
    misdelivered: u64,
    invalidation_packets: u64,
    learning_packets: u64,
    /// In thousandths.
    hops: u64,
    first_packet_ns: u64,
    /// At cores, spines and ToRs.
    hits: [u64; 3],
}

impl Row {
    fn of(m: &Metrics) -> Self {
        let hits = |switches: std::ops::Range<usize>| {
            m.switches[switches].iter().map(|switch| switch.hits).sum()
        };
        Self {
            gateway_packets: m.gateway_packets,
            latency_ns: m.packet_latency_ns_mean().round() as u64,
            last_misdelivered_10ns: m.last_misdelivered_ns / 10,
            misdelivered: m.misdelivered,
            invalidation_packets: m.invalidation_packets,
            learning_packets: m.learning_packets,
            hops: (m.packet_hops_mean() * 1_000.0).round() as u64,
            first_packet_ns: m.first_packet_latency_ns_mean().round() as u64,
            hits: [hits(0..16), hits(16..48), hits(48..80)],
        }
    }
}

#[test]
fn switchv2p_gives_the_references_results_in_every_digit() {
    let no_invalidations = Row {
        gateway_packets: 5_379,
        latency_ns: 16_128,
        last_misdelivered_10ns: 100_528,
        misdelivered: 17_266,
        invalidation_packets: 0,
        learning_packets: 22,
        hops: 7_172,
        first_packet_ns: 49_426,
        hits: [7_081, 8_291, 45_915],
    };
    let with_invalidations = Row {
        latency_ns: 13_140,
        last_misdelivered_10ns: 56_307,
        learning_packets: 25,
        ..no_invalidations
    };
    let no_vector = Row {
        gateway_packets: 5_613,
        misdelivered: 3_503,
        invalidation_packets: 3_503,
        hops: 5_694,
        hits: [17_232, 10_165, 33_441],
        ..with_invalidations
    };
    let one_shot = Row {
        gateway_packets: 5_545,
        misdelivered: 3_655,
        invalidation_packets: 24,
        hops: 5_699,
        hits: [14_208, 10_137, 36_629],
        ..with_invalidations
    };
    assert_eq!(Row::of(&run("switchv2p-no-invalidations", 1)), no_invalidations);
    assert_eq!(Row::of(&run("switchv2p-no-timestamp-vector", 1)), no_vector);
    assert_eq!(Row::of(&run("switchv2p", 1)), one_shot);
    assert_ne!(Row::of(&run("switchv2p", 2)), one_shot, "another seed gives the same result");
}
