//! A single flow in FT8-10K, compared with the authors' simulator: equal times and packet counts.

use fabric::{Config, Metrics, Model, Scheme, Simulation, topology::Topology, workload::Flow};

fn run(scheme: &str, id: u32, bytes: u64, destination: u32) -> Metrics {
    let config = Config { model: Model::published(), cache_entries: 5_120, ..Config::default() };
    let flow = Flow { source: 100, destination, start_ns: 1_000, id, bytes };
    let scheme: Scheme = scheme.parse().expect("a scheme");
    let mut simulation = Simulation::new(&config, &Topology::ft8_10k(), vec![flow], scheme, 1)
        .expect("a simulation");
    while !simulation.step(1_000_000).expect("laws hold").finished {}
    simulation.metrics().clone()
}

/// Scheme, flow id, bytes; packets, gateway packets, FCT, first packet latency (ns), mean packet
/// latency (ns), mean hops.
type Row = (&'static str, u32, u64, u64, u64, u64, u64, f64, f64);

const ALONE: &[Row] = &[
    ("direct", 1, 1, 7, 0, 30_092, 6_016, 6_017.571_429, 5.0),
    ("nocache", 1, 1, 7, 7, 240_152, 48_028, 48_029.571_429, 6.0),
    ("direct", 1, 1_024, 7, 0, 30_340, 6_016, 6_053.0, 5.0),
    ("nocache", 1, 1_024, 7, 7, 240_564, 48_028, 48_088.428_571, 6.0),
    ("direct", 1, 10_240, 21, 0, 31_132, 6_016, 6_325.333_333, 5.0),
    ("nocache", 1, 10_240, 21, 21, 241_356, 48_028, 48_415.428_571, 6.0),
    ("direct", 1, 10_241, 22, 0, 42_372, 6_016, 6_311.272_727, 5.0),
    ("nocache", 1, 10_241, 22, 22, 336_620, 48_028, 48_397.818_182, 6.0),
    ("direct", 1, 19_456, 34, 0, 43_324, 6_016, 6_314.117_647, 5.0),
    ("nocache", 1, 19_456, 34, 34, 337_736, 48_028, 48_417.764_706, 6.0),
    ("direct", 1, 100_000, 153, 0, 92_768, 6_016, 6_287.764_706, 5.0),
    ("nocache", 1, 100_000, 153, 153, 723_932, 48_028, 48_404.810_458, 6.0),
    ("direct", 1, 600_000, 885, 0, 279_103, 6_016, 6_261.607_910, 5.0),
    ("nocache", 1, 600_000, 885, 885, 2_173_087, 48_028, 48_382.2, 6.0),
    ("direct", 1, 5_000_000, 7_330, 0, 774_629, 6_016, 7_776.521_828, 5.0),
    ("nocache", 1, 5_000_000, 7_330, 7_330, 5_567_233, 48_028, 48_524.795_225, 6.0),
    ("nocache", 2, 600_000, 885, 885, 2_355_031, 52_032, 52_441.820_339, 10.0),
    ("ondemand", 2, 600_000, 885, 1, 365_114, 52_032, 6_403.942_373, 5.005_650),
    ("gwcache", 2, 600_000, 885, 2, 545_071, 52_032, 10_416.170_621, 9.002_260),
    ("locallearning", 2, 600_000, 885, 2, 545_071, 52_032, 10_416.170_621, 9.002_260),
    ("switchv2p", 2, 600_000, 885, 1, 414_971, 52_032, 9_029.508_475, 7.663_277),
    ("bluebird", 2, 600_000, 885, 0, 737_392, 14_549, 15_617.216_949, 5.0),
];

#[test]
fn single_flows_match_the_reference_to_the_nanosecond() {
    let mut wrong = Vec::new();
    for (scheme, id, bytes, packets, gateway, fct, fpl, latency, hops) in ALONE.iter().copied() {
        let metrics = run(scheme, id, bytes, 5_000);
        let expected = (packets, gateway, fct, fpl, format!("{latency:.6}"), format!("{hops:.6}"));
        let got = (
            metrics.sent,
            metrics.gateway_packets,
            metrics.flow_completion_ns,
            metrics.first_packet_latency_ns,
            format!("{:.6}", metrics.packet_latency_ns_mean()),
            format!("{:.6}", metrics.packet_hops_mean()),
        );
        if expected != got {
            wrong.push(format!("{scheme} {id} {bytes}: expected {expected:?}, got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Three learning packets, drawn as in the reference, teach the sender's ToR the receiver's
/// location.
#[test]
fn switchv2p_hits_where_the_reference_does() {
    let metrics = run("switchv2p", 2, 600_000, 5_000);
    assert_eq!(metrics.learning_packets, 3);
    let hits: Vec<(usize, u64)> =
        metrics.switches.iter().map(|s| s.hits).enumerate().filter(|(_, hits)| *hits > 0).collect();
    assert_eq!(hits, [(58, 588), (63, 296)]);
}

#[test]
fn other_pairs_match_too() {
    for (scheme, destination, fct, fpl, hops) in [
        ("direct", 20, 15_178, 2_012, Some(1.0)),
        ("direct", 1_000, 29_276, 4_014, Some(3.0)),
        ("nocache", 20, 365_982, 52_032, None),
        ("nocache", 1_000, 365_982, 52_032, None),
        ("nocache", 5_000, 365_982, 52_032, None),
    ] {
        let metrics = run(scheme, 2, 20_000, destination);
        let got = (metrics.sent, metrics.flow_completion_ns, metrics.first_packet_latency_ns);
        assert_eq!(got, (36, fct, fpl), "{scheme} to {destination}");
        assert!(
            hops.is_none_or(|hops| metrics.packet_hops_mean() == hops),
            "{scheme} to {destination}"
        );
    }
}
