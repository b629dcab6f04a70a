//! Clients read through a cache in front of a cluster while others write at its nodes, slots move
//! and are taken over, and a primary is killed: no read returns a value that was replaced longer
//! ago than the bound of the feeds.

use crate::support::cached_cluster::Engine;
use crate::support::cluster::{cluster, valkey};
use crate::support::cluster_history::run;
use crate::support::history::seeds;

/// With fewer hits a history proves little.
const HITS_MIN: f64 = 300.0;
/// Rounds of each of the long histories. The checker reaches no verdict on a history of 40.
const ROUNDS_LONG: u64 = 5;
const LONG_HISTORIES: usize = 8;

#[test]
fn cluster_history_is_never_older_than_the_bound() {
    check(cluster, 1, seeds().start);
}

#[test]
fn history_of_a_valkey_cluster_is_never_older_than_the_bound() {
    check(valkey, 1, seeds().start);
}

#[test]
#[ignore = "half an hour: make soak"]
fn long_cluster_history_is_never_older_than_the_bound() {
    for seed in seeds().take(LONG_HISTORIES) {
        check(cluster, ROUNDS_LONG, seed);
        check(valkey, ROUNDS_LONG, seed);
    }
}

fn check(engine: Engine, rounds: u64, seed: u64) {
    let Some((verdict, hits)) = run(engine, rounds, seed) else { return };
    assert!(verdict.linearizable, "{}", verdict.text);
    assert!(hits >= HITS_MIN, "only {hits} hits");
}
