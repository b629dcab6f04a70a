//! Many clients, few items, a network path that breaks: the history of DynamoDB clients through the
//! cache is linearizable.

use std::path::Path;

use crate::support::directory::TemporaryDirectory;
use crate::support::dynamodb_history::{access_key, create_tables, with_feed, work};
use crate::support::enroute::{Cache, broken_program, program};
use crate::support::history::{self, Verdict};
use crate::support::memcached_history::{path_to, record};
use crate::support::origins::DynamoDb;

/// Longer than a write can be in flight after its connection was lost, cuts included.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"2s\"\n";

#[test]
fn dynamodb_history_through_the_cache_is_linearizable() {
    history::are_linearizable(200, |seed| run(&program(), 5_000, seed, access_key));
}

/// The feed reports the writes that pass through the cache as well, and is cut as often.
#[test]
fn dynamodb_history_through_a_cache_with_a_feed_is_linearizable() {
    let options = |directory: &TemporaryDirectory| with_feed(directory, None);
    history::are_linearizable(100, |seed| run(&program(), 5_000, seed, options));
}

#[test]
#[ignore = "slow: make soak"]
fn dynamodb_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable_when_long(20_000, |operations, seed| {
        run(&program(), operations, seed, access_key)
    });
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_dynamodb_cache_without_leases_is_found_out() {
    history::is_found_out(|seed| Some(run(&broken_program(), 100_000, seed, access_key)?.0));
}

/// Returns the checker's verdict, and the number of hits.
fn run(
    program: &Path,
    operations: usize,
    seed: u64,
    options: impl Fn(&TemporaryDirectory) -> String,
) -> Option<(Verdict, u64)> {
    history::checker()?;
    let origin = DynamoDb::start()?;
    create_tables(origin.address());
    let directory = TemporaryDirectory::create();
    let relay = path_to(origin.address(), seed);
    let option = options(&directory);
    let cache = Cache::run(program, &[("dynamodb", relay.local_addr(), &option)], OPTIONS);
    let history = record(&relay, operations, seed, |start, goes_on| {
        work(cache.address(), seed, start, goes_on)
    });
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}
