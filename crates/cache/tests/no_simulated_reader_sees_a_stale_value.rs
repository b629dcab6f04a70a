//! Thousands of random steps from one seed: sessions with random chunk sizes, delays and resets,
//! compared with an oracle that has no cache.
//!
//! `ENROUTE_SEEDS=n` runs n seeds of each protocol instead of the default number; `ENROUTE_SEED=n`
//! runs seed n alone.

#[path = "conversation/bson.rs"]
mod bson;
#[path = "simulation/dynamodb.rs"]
mod dynamodb;
#[path = "simulation/memcached.rs"]
mod memcached;
#[path = "simulation/mongodb.rs"]
mod mongodb;
#[path = "simulation/origin.rs"]
mod origin;
#[path = "simulation/protocol.rs"]
mod protocol;
#[path = "simulation/random.rs"]
mod random;
#[path = "simulation/redis.rs"]
mod redis;
#[path = "simulation/world.rs"]
mod world;

use std::{any::Any, panic::catch_unwind, time::Duration};

use protocol::Protocol;

const STEPS: usize = 2_000;
/// Maximum number of seeds until a broken cache must have been detected.
const BROKEN_SEEDS: u64 = 300;

#[test]
fn redis() {
    run::<redis::Redis>();
}

#[test]
fn mongodb() {
    run::<mongodb::MongoDb>();
}

#[test]
fn memcached() {
    run::<memcached::Memcached>();
}

#[test]
fn dynamodb() {
    run::<dynamodb::DynamoDb>();
}

#[test]
fn a_dynamodb_cache_without_quarantine_is_found_out() {
    is_found_out::<dynamodb::DynamoDb>();
}

#[test]
fn a_memcached_cache_without_quarantine_is_found_out() {
    is_found_out::<memcached::Memcached>();
}

#[test]
fn a_redis_cache_without_quarantine_is_found_out() {
    is_found_out::<redis::Redis>();
}

#[test]
fn a_mongodb_cache_without_quarantine_is_found_out() {
    is_found_out::<mongodb::MongoDb>();
}

/// The simulation must detect a cache without a quarantine: such a cache serves keys that an
/// unanswered write may still change.
fn is_found_out<P: Protocol>() {
    let is_stale = |error: Box<dyn Any + Send>| {
        error.downcast_ref::<String>().is_some_and(|text| text.starts_with("asked at moment"))
    };
    let is_found =
        |seed| catch_unwind(|| world::run::<P>(seed, STEPS, Duration::ZERO)).is_err_and(is_stale);
    assert!((0..BROKEN_SEEDS).any(is_found), "no reader saw a stale value in {BROKEN_SEEDS} seeds");
}

fn run<P: Protocol>() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds: u64 = number("ENROUTE_SEEDS").unwrap_or(300);
    let seeds = match number("ENROUTE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..seeds,
    };
    let (mut reads, mut hits, mut verified) = (0, 0, 0);
    for seed in seeds.clone() {
        match catch_unwind(|| world::run::<P>(seed, STEPS, world::QUARANTINE)) {
            Ok(seen) => {
                reads += seen.reads;
                hits += seen.hits;
                verified += seen.verified;
            }
            Err(_) => panic!("seed {seed} fails: run it alone with ENROUTE_SEED={seed}"),
        }
    }
    let seeds = seeds.end - seeds.start;
    // Without hits, the simulation proves nothing.
    assert!(hits > 10 * seeds, "{hits} hits, {reads} reads in {seeds} seeds");
    assert!(verified > seeds, "{verified} hits compared in {seeds} seeds");
}
