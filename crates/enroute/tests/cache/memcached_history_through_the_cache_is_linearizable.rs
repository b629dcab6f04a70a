//! Many clients, few keys, a network path that breaks: the history of memcached clients through the
//! cache is linearizable.

use std::env;
use std::path::Path;

use crate::support::enroute::{Cache, program};
use crate::support::history::{self, Verdict};
use crate::support::memcached_history::{path_to, record};
use crate::support::origins::Memcached;

/// Longer than a write can be in flight after its connection was lost, cuts included.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"2s\"\n";

#[test]
fn memcached_history_through_the_cache_is_linearizable() {
    history::are_linearizable(2_000, |seed| run(&program(), 20_000, seed));
}

#[test]
#[ignore = "slow: make soak"]
fn memcached_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable(20_000, |seed| {
        // More are begun: a read that is never answered is not recorded.
        let (verdict, hits) = run(&program(), 220_000, seed)?;
        assert!(verdict.operations >= 200_000, "{}", verdict.text);
        Some((verdict, hits))
    });
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_memcached_cache_without_leases_is_found_out() {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let is_found = |seed| {
        // Without the tools to run it, nothing can be detected.
        run(Path::new(&program), 200_000, seed).is_none_or(|(verdict, _)| !verdict.linearizable)
    };
    assert!(history::seeds().any(is_found), "linearizable every time");
}

/// Returns the checker's verdict, and the number of hits.
fn run(program: &Path, operations: usize, seed: u64) -> Option<(Verdict, u64)> {
    history::checker()?;
    let origin = Memcached::start()?;
    let relay = path_to(origin.address(), seed);
    let cache = Cache::run(program, &[("memcached", relay.local_addr(), "")], OPTIONS);
    let history = record(cache.address(), &relay, operations, seed);
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}
