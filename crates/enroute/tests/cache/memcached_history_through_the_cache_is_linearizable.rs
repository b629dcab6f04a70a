//! Many clients, few keys, a network path that breaks: the history of memcached clients through the
//! cache is linearizable.

use std::path::Path;

use crate::support::enroute::{Cache, broken_program, program};
use crate::support::history::{self, Verdict};
use crate::support::memcached_history::{path_to, record, work};
use crate::support::origins::Memcached;

/// Longer than a write can be in flight after its connection was lost, cuts included.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"2s\"\n";

#[test]
fn memcached_history_through_the_cache_is_linearizable() {
    history::are_linearizable(2_000, |seed| run(&program(), 1, 20_000, seed));
}

/// The path to one of them breaks.
#[test]
fn history_through_three_memcacheds_is_linearizable() {
    history::are_linearizable(2_000, |seed| run(&program(), 3, 20_000, seed));
}

#[test]
#[ignore = "slow: make soak"]
fn memcached_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable_when_long(20_000, |operations, seed| {
        run(&program(), 1, operations, seed)
    });
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_memcached_cache_without_leases_is_found_out() {
    history::is_found_out(|seed| Some(run(&broken_program(), 1, 200_000, seed)?.0));
}

/// Returns the checker's verdict on a history with this many servers, and the number of hits.
fn run(program: &Path, servers: usize, operations: usize, seed: u64) -> Option<(Verdict, u64)> {
    history::checker()?;
    let origins = (0..servers).map(|_| Memcached::start()).collect::<Option<Vec<_>>>()?;
    let relays: Vec<_> = origins.iter().map(|origin| path_to(origin.address(), seed)).collect();
    let names: Vec<_> = relays.iter().map(|relay| relay.local_addr().to_string()).collect();
    let cache = Cache::run(program, &[("memcached", names.join(","), "")], OPTIONS);
    let history = record(&relays[0], operations, seed, |start, goes_on| {
        work(cache.address(), seed, start, goes_on)
    });
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}
