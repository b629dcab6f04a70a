//! The golden vectors of `policy::hotkey` in the kernel: sketch, filter, samples and reports are
//! bit-identical.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use policy::hotkey::{Config as Statistics, Detector, hash};
use proptest::{prelude::*, test_runner::TestRunner};
use rustix::thread::{CpuSet, sched_setaffinity};
use support::{data_plane, get, name, small, to_server};
use switch::{
    frame::Frame,
    layout::ReportKind,
    plane::{Config, DataPlane},
};
use wire::memcache::frame::Frame as Datagram;

const GOLDEN: &str = include_str!("../../policy/testdata/hotkey-golden.txt");

/// Each processor has its own sampling state; only that of the first has the seed.
fn stay_on_the_first_processor() {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first).expect("there is a first processor");
}

fn number(text: &str) -> u64 {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))
        .expect("a number")
}

fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Requests `key:<number>` by a memcached get; returns whether the key was reported.
fn is_reported(plane: &mut DataPlane, key: &str) -> bool {
    let server = Frame { destination: support::at("10.0.0.2:11211"), ..to_server() };
    let said = format!("get {key}\r\n");
    plane.run(&server.bytes(&Datagram::whole(1, said.as_bytes()).bytes()), 1).expect("it runs");
    let report = plane.report();
    if let Some(report) = &report {
        assert_eq!(report.kind, ReportKind::Hot);
        assert_eq!(report.key, key.as_bytes());
    }
    report.is_some()
}

#[test]
fn golden_vectors_hold_in_the_kernel() {
    stay_on_the_first_processor();
    let vectors: Vec<Vec<&str>> = GOLDEN
        .lines()
        .filter(|line| line.starts_with("detect "))
        .map(|line| line.split(' ').skip(1).collect())
        .collect();
    assert!(!vectors.is_empty());
    for fields in vectors {
        let statistics = Statistics {
            sampled_per_65536: number(fields[1]) as u32,
            threshold: number(fields[2]) as u16,
            ..Statistics::default()
        };
        let config = Config { seed: number(fields[0]), statistics, ..small() };
        let Some(mut plane) = data_plane(config) else { return };
        let hot = |at: &u64| is_reported(&mut plane, &format!("key:{}", at * at % 997));
        let reports: Vec<u64> = (0..number(fields[3])).filter(hot).collect();
        assert_eq!(reports, fields[6..].iter().map(|text| number(text)).collect::<Vec<_>>());
        assert_eq!(fnv(plane.sketch.bytes()), number(fields[4]), "sketch");
        assert_eq!(fnv(plane.filter.bytes()), number(fields[5]), "filter");
    }
}

#[test]
fn hashes_of_golden_keys_reach_the_same_counters() {
    stay_on_the_first_processor();
    let mut checked = 0;
    for line in GOLDEN.lines().filter(|line| line.starts_with("hash ")) {
        let fields: Vec<&str> = line.split(' ').skip(1).collect();
        let pairs = fields[1].as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| number(&format!("0x{}", String::from_utf8_lossy(pair))) as u8;
        let key: Vec<u8> = pairs.map(byte).collect();
        // Only valid keys of memcached can be requested.
        if fields[1] == "-" || key.len() > 250 || key.iter().any(|byte| *byte <= b' ') {
            continue;
        }
        let statistics = Statistics::default();
        let config = Config { seed: number(fields[0]), statistics, ..small() };
        let Some(mut plane) = data_plane(config) else { return };
        let said = [b"get ", &key[..], b"\r\n"].concat();
        let server = Frame { destination: support::at("10.0.0.2:11211"), ..to_server() };
        plane.run(&server.bytes(&Datagram::whole(1, &said).bytes()), 1).expect("it runs");
        for row in 0..4 {
            let place = (row << 16) + number(fields[3 + row as usize]) as u32;
            assert_eq!(plane.sketch.counter(place), 1, "row {row} of {line}");
        }
        checked += 1;
    }
    assert!(checked > 0, "no golden key can be asked for");
}

#[test]
fn any_sizes_and_shares_count_alike() {
    stay_on_the_first_processor();
    let cases =
        (1usize..=8, 4u32..=16, 1usize..=8, 9u32..=18, 1u16..40, 0u32..=65_536, any::<u64>());
    let mut runner = TestRunner::new(ProptestConfig { cases: 12, ..ProptestConfig::default() });
    runner
        .run(
            &cases,
            |(sketch_rows, sketch_bits, filter_rows, filter_bits, threshold, share, seed)| {
                let statistics = Statistics {
                    sketch_rows,
                    sketch_width_bits: sketch_bits.max(5),
                    filter_rows,
                    filter_width_bits: filter_bits,
                    threshold,
                    sampled_per_65536: share,
                };
                let Some(mut plane) = data_plane(Config { seed, statistics, ..small() }) else {
                    return Ok(());
                };
                let mut detector = Detector::new(statistics, seed).expect("sizes in range");
                for access in 0..600u32 {
                    let key = access * access % 23;
                    let hot = detector.observe_hash(hash(&name(key), seed));
                    plane.run(&get(key), 1).expect("it runs");
                    prop_assert_eq!(plane.report().is_some(), hot, "access {}", access);
                }
                let counters = detector.sketch().counters().iter().flat_map(|c| c.to_le_bytes());
                prop_assert!(plane.sketch.bytes().eq(counters));
                let words = detector.filter().words().iter().flat_map(|word| word.to_le_bytes());
                prop_assert!(plane.filter.bytes().eq(words));
                plane.sketch.clear();
                prop_assert!(plane.sketch.bytes().all(|byte| byte == 0));
                Ok(())
            },
        )
        .expect("they agree");
}
