//! Many MongoDB clients, few documents, a network path that breaks, an origin that is killed and
//! restarted empty: the history of the drivers through the cache is linearizable, where each kill
//! empties the origin.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::enroute::{Cache, broken_program, program};
use crate::support::history::{self, KILLS, Recorder, Verdict};
use crate::support::mongodb_history::{KEYS, until_answered, work};
use crate::support::origins::Mongo;
use crate::support::process::{free_address, start_again};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testbed::link::RelayConfig;

/// One in this many breaks of the path also kills the origin.
const KILLED_OF: u32 = 4;

/// Options of the storage.
const ON_MISS: &str = "";
const ON_WRITE: &str = "population = \"on-write\"\nttl = \"30ms\"\n";

#[test]
fn mongodb_history_through_the_cache_is_linearizable() {
    history::are_linearizable(150, |seed| run(&program(), ON_MISS, 3_000, seed));
}

/// Documents are stored when they are written, too. They expire soon, so that reads of the origin
/// are among the hits: hits alone may all agree on what the origin does not have.
#[test]
fn mongodb_history_with_population_on_write_is_linearizable() {
    history::are_linearizable(300, |seed| run(&program(), ON_WRITE, 3_000, seed));
}

#[test]
#[ignore = "slow: make soak"]
fn mongodb_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable_when_long(10_000, |operations, seed| {
        run(&program(), ON_MISS, operations, seed)
    });
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_of_mongodb_without_leases_is_found_out() {
    history::is_found_out(|seed| Some(run(&broken_program(), ON_MISS, 100_000, seed)?.0));
}

/// The test must detect a cache that stores what one of two overlapping writes states.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_of_mongodb_that_stores_overlapping_writes_is_found_out() {
    history::is_found_out(|seed| Some(run(&broken_program(), ON_WRITE, 100_000, seed)?.0));
}

/// Returns the checker's verdict, and the number of hits.
fn run(program: &Path, storage: &str, operations: usize, seed: u64) -> Option<(Verdict, u64)> {
    history::checker()?;
    let mut origin = Mongo::start_java()?;
    let mut config = RelayConfig::new(origin.address());
    config.listen = free_address();
    config.up.jitter = Duration::from_millis(1);
    config.down.jitter = Duration::from_millis(1);
    config.handshake = false;
    config.seed = seed;
    // Longer than a write can be in flight after its connection was lost.
    let options = format!("workers = 2\n[storage]\nquarantine = \"3s\"\n{storage}");
    let cache = Cache::run(program, &[("mongodb", config.listen, "")], &options);

    let start = Instant::now();
    let trouble = |over: &AtomicBool| {
        let mut kills = Recorder::new(KILLS, start);
        let breaks = make_trouble(&config, &mut origin, cache.address(), &mut kills, over);
        (breaks, kills.finish())
    };
    let (mut history, ((breaks, killed), kills)) =
        history::record(operations, trouble, |goes_on| work(cache.address(), seed, start, goes_on));
    eprintln!("seed {seed}: {breaks} breaks, {killed} kills in {:?}", start.elapsed());
    history.extend(kills);
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}

/// Takes the path down with all its connections, restores it, delays it, or kills the origin;
/// returns the numbers of breaks and kills.
fn make_trouble(
    config: &RelayConfig,
    origin: &mut Mongo,
    cache: SocketAddr,
    kills: &mut Recorder,
    over: &AtomicBool,
) -> (usize, usize) {
    let mut random = Pcg64Mcg::seed_from_u64(!config.seed);
    let sleep = |limit: u64, random: &mut Pcg64Mcg| {
        thread::sleep(Duration::from_millis(random.random_range(0..limit)));
    };
    let (mut breaks, mut killed) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let relay = start_again(config);
        sleep(1_000, &mut random);
        let delay = Duration::from_micros(random.random_range(0..2_000));
        relay.set_delay(delay, delay);
        sleep(1_000, &mut random);
        if random.random_ratio(1, KILLED_OF) {
            kills.record_deletes(0..KEYS, || {
                origin.bring_down();
                sleep(300, &mut random);
                origin.bring_up();
                until_answered(cache);
            });
            killed += 1;
        }
        relay.stop();
        sleep(30, &mut random);
        breaks += 1;
    }
    (breaks, killed)
}
