//! Many clients, few keys, a network path that breaks: the history of Redis clients through the
//! cache is linearizable, with redis-server and with `enroute db`.

use std::path::Path;

use crate::support::database::Database;
use crate::support::enroute::{Cache, broken_program, program};
use crate::support::history::{self, Verdict};
use crate::support::origins::Redis;
use crate::support::redis_history::{Origin, path_to, record};

/// Longer than a write can be in flight after its connection was lost, cuts included.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"2s\"\n";

#[test]
fn redis_history_through_the_cache_is_linearizable() {
    history::are_linearizable(2_000, |seed| run(&program(), redis()?, 20_000, seed));
}

#[test]
fn history_before_the_elastic_database_is_linearizable() {
    let database = || Database::start_with(&["--sync", "always", "--workers", "2"]);
    history::are_linearizable(2_000, |seed| run(&program(), database(), 20_000, seed));
}

#[test]
#[ignore = "slow: make soak"]
fn redis_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable_when_long(20_000, |operations, seed| {
        run(&program(), redis()?, operations, seed)
    });
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_without_leases_is_found_out() {
    history::is_found_out(|seed| Some(run(&broken_program(), redis()?, 200_000, seed)?.0));
}

fn redis() -> Option<Redis> {
    // Without fsync: only the process is killed, not the machine.
    Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"])
}

/// Returns the checker's verdict, and the number of hits.
fn run(
    program: &Path,
    mut origin: impl Origin,
    operations: usize,
    seed: u64,
) -> Option<(Verdict, u64)> {
    history::checker()?;
    let relay = path_to(&origin, seed);
    let cache = Cache::run(program, &[("redis", relay.local_addr(), "")], OPTIONS);
    let history = record(cache.address(), &mut origin, &relay, operations, seed);
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}
