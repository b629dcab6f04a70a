//! Compares each workload with the statistics that its paper states.

use std::collections::HashMap;

use super::*;
use crate::workload::{Flow, Protocol};

const SEED: u64 = 1;

fn draw(generator: Generator, topology: &Topology) -> Workload {
    generator.draw(topology, 1.0, SEED).unwrap()
}

/// The number of flows to each VM; all datagrams of a flow count once.
fn destinations(flows: &[Flow]) -> HashMap<u32, u32> {
    let mut seen: Vec<(u32, u32)> = flows.iter().map(|flow| (flow.id, flow.destination)).collect();
    seen.sort_unstable();
    seen.dedup();
    let mut counts = HashMap::new();
    for (_, destination) in seen {
        *counts.entry(destination).or_insert(0) += 1;
    }
    counts
}

fn at_least(counts: &HashMap<u32, u32>, times: u32) -> usize {
    counts.values().filter(|&&count| count >= times).count()
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= tolerance, "{what}: {value}, expected {expected} within {tolerance}, seed 1");
}

fn assert_sound(workload: &Workload, topology: &Topology) {
    for flow in &workload.flows {
        let server = |vm: u32| topology.placement[vm as usize];
        assert_ne!(server(flow.source), server(flow.destination));
        assert!(flow.bytes > 0);
    }
}

fn mean_bytes(workload: &Workload) -> f64 {
    workload.flows.iter().map(|flow| flow.bytes as f64).sum::<f64>() / workload.flows.len() as f64
}

fn percentile(workload: &Workload, share: f64) -> f64 {
    let mut sizes: Vec<u64> = workload.flows.iter().map(|flow| flow.bytes).collect();
    sizes.sort_unstable();
    sizes[(sizes.len() as f64 * share) as usize] as f64
}

#[test]
fn hadoop_is_the_papers() {
    let workload = draw(Generator::Hadoop, &Topology::ft8_10k());
    assert_sound(&workload, &Topology::ft8_10k());
    assert_eq!(workload.protocol, Protocol::Tcp);
    assert_near("flows", workload.flows.len() as f64, 99_297.0, 0.02);
    assert_near("mean size", mean_bytes(&workload), 122_707.0, 0.03);
    for (share, bytes) in [(0.25, 448.0), (0.5, 699.0), (0.75, 36_000.0), (0.9, 119_380.0)] {
        assert_near("percentile", percentile(&workload, share), bytes, 0.02);
    }
    let load =
        workload.flows.iter().map(|flow| flow.bytes as f64).sum::<f64>() / 25e6 / 12.5 / 128.0;
    assert_near("load", load, 0.305, 0.03);
    let counts = destinations(&workload.flows);
    assert_near("destinations of 2", at_least(&counts, 2) as f64, 10_233.0, 0.002);
    assert_near("destinations of 10", at_least(&counts, 10) as f64, 5_154.0, 0.05);
    let mut last = HashMap::new();
    let (mut gaps, mut sum) = (0.0, 0.0);
    for flow in &workload.flows {
        if let Some(before) = last.insert(flow.destination, flow.start_ns) {
            gaps += 1.0;
            sum += (flow.start_ns - before) as f64;
        }
    }
    assert_near("reuse distance", sum / gaps, 2.28e6, 0.03);
}

#[test]
fn websearch_is_the_papers() {
    let workload = draw(Generator::WebSearch, &Topology::ft8_10k());
    assert_sound(&workload, &Topology::ft8_10k());
    assert_near("flows", workload.flows.len() as f64, 6_825.0, 0.05);
    assert_near("mean size", mean_bytes(&workload), 1_733_179.0, 0.06);
    assert_near("median", percentile(&workload, 0.5), 74_091.0, 0.06);
    assert_near("p99", percentile(&workload, 0.99), 24_051_751.0, 0.08);
    let counts = destinations(&workload.flows);
    assert_near("destinations", counts.len() as f64 / 10_240.0, 0.48, 0.05);
    assert_near("destinations of 2", at_least(&counts, 2) as f64, 1_466.0, 0.10);
}

#[test]
fn rpc_reuses_destinations_like_alibabas() {
    let workload = draw(Generator::Rpc, &Topology::ft16_400k());
    assert_sound(&workload, &Topology::ft16_400k());
    let counts = destinations(&workload.flows);
    assert_near("called at all", counts.len() as f64 / 410_865.0, 0.24, 0.04);
    let ten = at_least(&counts, 10);
    assert!((18_000..20_000).contains(&ten), "{ten} containers called in 10 flows, seed 1");
    let mut called: Vec<u32> = counts.into_values().collect();
    called.sort_unstable_by(|left, right| right.cmp(left));
    let top: u32 = called[..410_865 / 20].iter().sum();
    assert_near("calls to 5 %", f64::from(top) / workload.flows.len() as f64, 0.955, 0.01);
}

#[test]
fn microbursts_are_as_short_as_the_papers() {
    let workload = draw(Generator::Microbursts, &Topology::ft8_10k());
    assert_sound(&workload, &Topology::ft8_10k());
    assert_eq!(workload.protocol, Protocol::Udp);
    let mut spans: HashMap<u32, (u64, u64)> = HashMap::new();
    for flow in &workload.flows {
        let span = spans.entry(flow.id).or_insert((flow.start_ns, flow.start_ns));
        span.1 = span.1.max(flow.start_ns);
    }
    let mut lengths: Vec<u64> = spans.values().map(|(first, last)| last - first).collect();
    lengths.sort_unstable();
    assert_near("p99", lengths[lengths.len() * 99 / 100] as f64, 158_000.0, 0.05);
    let ten = at_least(&destinations(&workload.flows), 10);
    assert!((2_600..2_900).contains(&ten), "{ten} destinations of 10 bursts, seed 1");
}

#[test]
fn video_is_64_streams_that_share_nothing() {
    let workload = draw(Generator::Video, &Topology::ft8_10k());
    assert_sound(&workload, &Topology::ft8_10k());
    assert_near("datagrams", workload.flows.len() as f64, 769_527.0, 0.001);
    let counts = destinations(&workload.flows);
    assert_eq!((counts.len(), at_least(&counts, 2)), (64, 0));
    let last_ns = workload.flows.iter().map(|flow| flow.start_ns).max().unwrap_or(0);
    let bits = workload.flows.len() as f64 * 8_000.0 / 64.0;
    assert_near("rate of a stream", bits / (last_ns as f64 / 1e9), 48e6, 0.001);
}

/// `shared/data/switchv2p/incast.csv`, whose rows were compared one by one.
#[test]
fn incast_is_the_papers_trace() {
    let workload = draw(Generator::Incast, &Topology::ft8_10k());
    assert_eq!(workload.flows.len(), 64_000);
    let row = |index: usize| workload.flows[index];
    let first = Flow { source: 0, destination: 5_200, start_ns: 0, id: 1, bytes: 1 };
    let last = Flow { source: 5_040, destination: 5_200, start_ns: 999_000, id: 5_041, bytes: 64 };
    assert_eq!((row(0), row(63_999)), (first, last));
}

#[test]
fn a_seed_repeats_a_workload_and_another_gives_another() {
    for generator in Generator::ALL {
        let draw = |seed| generator.draw(&Topology::ft8_10k(), 0.05, seed).unwrap();
        assert_eq!(draw(7), draw(7), "{}", generator.name());
        if generator != Generator::Incast {
            assert_ne!(draw(7), draw(8), "{}", generator.name());
        }
    }
}

#[test]
fn every_generator_is_found_by_its_name() {
    for generator in Generator::ALL {
        assert_eq!(Generator::named(generator.name()), Some(generator));
    }
    assert_eq!(Generator::named("hadop"), None);
}

#[test]
fn a_topology_that_is_too_small_is_refused() {
    let small = Topology::fat_tree(1, 2, 1, 1, 0, Vec::new()).with_vms_per_server(3);
    assert!(Generator::Hadoop.draw(&small, 0.01, SEED).is_ok());
    let refused = Generator::Incast.draw(&small, 1.0, SEED).unwrap_err().to_string();
    assert!(refused.contains("66 servers with VMs"), "{refused}");
    assert!(Generator::Hadoop.draw(&small, 0.0, SEED).is_err());
}

#[test]
fn there_are_about_as_many_rows_as_is_said_beforehand() {
    let topology = Topology::ft8_10k();
    for generator in Generator::ALL {
        let drawn = generator.draw(&topology, 0.1, SEED).unwrap().flows.len();
        assert_near(generator.name(), drawn as f64, 0.1 * generator.rows(&topology), 0.1);
    }
    let too_many = Generator::Hadoop.draw(&Topology::ft16_400k(), SHARE_MAX, SEED).unwrap_err();
    assert!(too_many.to_string().contains("at most 268435456 rows"), "{too_many}");
}
