//! Hull has the hits of the convex hull at every size where the hit ratio of other policies is a
//! step, and loses nothing against SIEVE elsewhere.

#[path = "traces/mixed.rs"]
mod mixed;
#[expect(dead_code, reason = "shared by several tests")]
mod traces;

use std::time::Duration;

use mixed::CIRCLE;
use store::Replacement::{Hull, Sieve};
use store::{Config, Memory, Replacement};

/// The share of the accesses that hit in a cache of `items`, in the part of the trace from `from`
/// on.
fn hit_ratio(replacement: Replacement, trace: &[u64], items: usize, from: usize) -> f64 {
    let config = Config { items_max: items, replacement, ..Config::default() };
    let mut memory = Memory::new(config, 42);
    let mut hits_before = 0;
    for (at, key) in trace.iter().enumerate() {
        if at == from {
            hits_before = memory.stats().hits;
        }
        let name = key.to_le_bytes();
        if memory.lookup(*key, &name, Duration::ZERO).is_none() {
            let _ = memory.insert(*key, &name, &[], None, Duration::ZERO);
        }
    }
    (memory.stats().hits - hits_before) as f64 / (trace.len() - from) as f64
}

#[test]
fn of_a_circle_as_much_as_fits() {
    let trace = mixed::circles(usize::MAX);
    for items in [CIRCLE / 16, CIRCLE / 8, CIRCLE / 4, CIRCLE / 2, CIRCLE - 200] {
        let hits = hit_ratio(Hull, &trace, items, trace.len() / 2);
        let share = items as f64 / CIRCLE as f64;
        assert!(hits >= 0.9 * share && hits <= share + 0.001, "{items}: {hits} of {share}");
    }
}

#[test]
fn of_a_circle_and_of_what_is_frequent() {
    for trace in [mixed::beside_a_circle(&mixed::zipf(20_000, 0.99)), mixed::scans()] {
        let hull = mixed::lru_hull(&trace, trace.len() / 2);
        for items in [250, 500, 1_000, 2_000, 3_000] {
            let hits = hit_ratio(Hull, &trace, items, trace.len() / 2);
            let height = mixed::height(&hull, items);
            assert!(hits >= 0.95 * height, "{items}: {hits}, the hull is at {height}");
        }
    }
}

#[test]
fn of_a_circle_and_of_what_is_used_again_soon() {
    let trace = mixed::beside_a_circle(&mixed::bursts());
    let twice: Vec<u64> = trace.iter().copied().cycle().take(2 * trace.len()).collect();
    let hull = mixed::lru_hull(&twice, trace.len());
    for items in [500, 1_000, 2_000, 3_000] {
        let hits = hit_ratio(Hull, &twice, items, trace.len());
        let height = mixed::height(&hull, items);
        assert!(hits >= 0.9 * height, "{items}: {hits}, the hull is at {height}");
    }
}

#[test]
fn of_circles_that_change() {
    // Each is asked for 25 times.
    let trace = mixed::circles(25 * CIRCLE);
    for items in [CIRCLE / 8, CIRCLE / 4, CIRCLE / 2, CIRCLE * 3 / 4] {
        let hits = hit_ratio(Hull, &trace, items, 25 * CIRCLE);
        let share = items as f64 / CIRCLE as f64;
        assert!(hits >= 0.65 * share, "{items}: {hits} of {share}");
    }
}

#[test]
fn and_loses_nothing_elsewhere() {
    let drawn = [0.7, 0.99, 1.2].map(|skew| (format!("Zipf {skew}"), mixed::zipf(20_000, skew)));
    let changing = [10_000, 40_000, 100_000].map(|each| (format!("{each}"), mixed::shifting(each)));
    let others = [
        ("uniform", mixed::uniform()),
        ("drifting", mixed::drifting()),
        ("bursts", mixed::bursts()),
        ("a circle", mixed::circles(usize::MAX)),
        ("circles", mixed::circles(5 * CIRCLE)),
        ("scans", mixed::scans()),
        ("one-hit wonders", traces::one_hit_wonders()),
        ("long scans", traces::scans()),
        ("a ring", traces::ring()),
    ]
    .map(|(name, trace)| (name.to_owned(), trace));
    for (name, trace) in drawn.into_iter().chain(changing).chain(others) {
        for items in [200, 1_000, 4_000] {
            let [hull, sieve] = [Hull, Sieve].map(|policy| hit_ratio(policy, &trace, items, 0));
            assert!(hull >= 0.99 * sieve, "{name}, {items}: {hull}, SIEVE {sieve}");
        }
    }
}
