//! The first 20,000 flows of the Hadoop trace at 50 %, compared with the authors' simulator.
//! Skipped without the trace, which is not part of this repository.

use std::{io::Read, path::Path};

use fabric::{Config, Metrics, Model, Scheme, Simulation, topology::Topology, workload::Flow};

const TRACE: &str = "../../../shared/data/switchv2p/hadoop-first20000.csv.gz";

fn flows() -> Option<Vec<Flow>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TRACE);
    let Ok(file) = std::fs::File::open(&path) else {
        eprintln!("SKIPPED: {} is absent", path.display());
        return None;
    };
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    let flow = |line: &str| {
        let fields: Vec<u64> =
            line.split(',').map(|field| field.parse().expect("a number")).collect();
        let [source, destination, start_ns, id, bytes] = fields[..] else {
            panic!("five fields: {line}")
        };
        Flow {
            source: source as u32,
            destination: destination as u32,
            start_ns,
            id: id as u32,
            bytes,
        }
    };
    Some(text.lines().map(flow).collect())
}

/// Scheme; packets, gateway packets, FCT, first packet latency, packet latency (ns), hops.
const ROWS: &[(&str, [f64; 6])] = &[
    ("direct", [3_678_794.0, 0.0, 83_880.0, 7_815.0, 11_164.0, 4.680]),
    ("nocache", [3_678_794.0, 3_678_794.0, 537_140.0, 53_086.0, 55_490.0, 9.375]),
    ("ondemand", [3_678_794.0, 19_718.0, 128_800.0, 52_873.0, 11_470.0, 4.704]),
    ("gwcache", [3_710_307.0, 464_879.0, 242_790.0, 48_763.0, 19_894.0, 8.422]),
    ("locallearning", [3_813_022.0, 2_693_517.0, 496_780.0, 52_129.0, 44_015.0, 8.484]),
    ("switchv2p", [3_818_548.0, 231_040.0, 172_890.0, 52_145.0, 13_624.0, 5.073]),
    // Four fifths of this FCT come from two flows whose repeated SYNs arrive after their
    // connections.
    ("bluebird", [3_966_219.0, 0.0, 16_667_860.0, 359_513.0, 95_540.0, 4.675]),
];

fn run(scheme: &str, flows: Vec<Flow>) -> Metrics {
    let config = Config { model: Model::published(), cache_entries: 5_120, ..Config::default() };
    let scheme: Scheme = scheme.parse().expect("a scheme");
    let mut simulation =
        Simulation::new(&config, &Topology::ft8_10k(), flows, scheme, 1).expect("a simulation");
    while !simulation.step(10_000_000).expect("laws hold").finished {}
    simulation.metrics().clone()
}

fn check(scheme: &str, expected: [f64; 6], m: &Metrics) {
    let [packets, gateway, fct, fpl, latency, hops] = expected;
    eprintln!(
        "{scheme}: {} packets, hit rate {:.4}, FCT {:.0}, FPL {:.0}, latency {:.0}, hops {:.3}",
        m.sent,
        m.hit_rate(),
        m.flow_completion_ns_mean(),
        m.first_packet_latency_ns_mean(),
        m.packet_latency_ns_mean(),
        m.packet_hops_mean(),
    );
    // The reference prints FCTs to 10 ns, other times to the nanosecond, hops to a thousandth.
    let figures = [
        ("packets", m.sent as f64, packets, 0.0),
        ("gateway packets", m.gateway_packets as f64, gateway, 0.0),
        ("FCT", m.flow_completion_ns_mean(), fct, 5.0),
        ("first packet latency", m.first_packet_latency_ns_mean(), fpl, 0.5),
        ("packet latency", m.packet_latency_ns_mean(), latency, 0.5),
        ("hops", m.packet_hops_mean(), hops, 0.000_5),
    ];
    for (what, got, expected, printed) in figures {
        // Among millions of packets these two schemes diverge from the reference.
        let share = if ["switchv2p", "bluebird"].contains(&scheme) { 0.015 } else { 0.0 };
        let tolerance = expected * share + printed;
        assert!((got - expected).abs() <= tolerance, "{scheme}: {what} {got}, expected {expected}");
    }
}

#[test]
fn direct_matches() {
    let Some(flows) = flows() else { return };
    let (scheme, expected) = ROWS[0];
    check(scheme, expected, &run(scheme, flows));
}

/// Packets sent in the first thousand flows; the reference reports no more for them.
#[test]
fn a_thousand_flows_send_as_many_packets() {
    let Some(mut flows) = flows() else { return };
    flows.truncate(1_000);
    for (scheme, packets) in [
        ("direct", 165_767),
        ("nocache", 165_767),
        ("ondemand", 165_767),
        ("gwcache", 165_770),
        ("locallearning", 166_291),
        ("switchv2p", 166_986),
    ] {
        assert_eq!(run(scheme, flows.clone()).sent, packets, "{scheme}");
    }
    let sent = run("bluebird", flows).sent;
    assert_eq!(sent, 167_503, "bluebird");
}

#[test]
#[ignore = "half a minute: make soak"]
fn every_scheme_matches() {
    let Some(flows) = flows() else { return };
    for (scheme, expected) in ROWS {
        let metrics = run(scheme, flows.clone());
        check(scheme, *expected, &metrics);
        if *scheme == "bluebird" {
            let lost = (metrics.sent - metrics.received) as f64;
            assert!((lost / 14_412.0 - 1.0).abs() < 0.05, "lost {lost}");
        }
        if *scheme == "switchv2p" {
            let hits = |range: std::ops::Range<usize>, first: bool| {
                let some = &metrics.switches[range];
                some.iter().map(|s| if first { s.first_hits } else { s.hits }).sum::<u64>() as f64
            };
            let all = hits(0..80, false);
            for (what, range, expected) in
                [("core", 0..16, 1.3), ("spine", 16..48, 5.1), ("ToR", 48..80, 93.6)]
            {
                let got = 100.0 * hits(range, false) / all;
                assert!(
                    (got - expected).abs() < 1.0,
                    "{what} hits: {got} %, expected {expected} %"
                );
            }
        }
    }
}
