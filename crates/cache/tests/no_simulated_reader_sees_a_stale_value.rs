//! Thousands of random steps from one seed: sessions under random chunks, delays and resets, against
//! an oracle without a cache.
//!
//! `ENROUTE_SEEDS=n` runs that many seeds of each protocol instead of the usual; `ENROUTE_SEED=n` one.

#[path = "conversation/bson.rs"]
mod bson;
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

use protocol::Protocol;

const STEPS: usize = 2_000;

#[test]
fn redis() {
    run::<redis::Redis>();
}

#[test]
fn mongodb() {
    run::<mongodb::MongoDb>();
}

fn run<P: Protocol>() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds: u64 = number("ENROUTE_SEEDS").unwrap_or(300);
    let seeds = match number("ENROUTE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..seeds,
    };
    let (mut reads, mut hits) = (0, 0);
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| world::run::<P>(seed, STEPS)) {
            Ok(seen) => {
                reads += seen.reads;
                hits += seen.hits;
            }
            Err(_) => panic!("seed {seed} fails: run it alone with ENROUTE_SEED={seed}"),
        }
    }
    let seeds = seeds.end - seeds.start;
    // A simulation in which nothing is cached proves nothing.
    assert!(hits > 10 * seeds, "{hits} hits, {reads} reads in {seeds} seeds");
}
