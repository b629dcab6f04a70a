//! Thousands of random steps from one seed: clients, disks, expiry, memory budgets, restarts and
//! power failures, compared with a map as the oracle.
//!
//! `ENROUTE_SEEDS=n` runs n seeds instead of the default number; `ENROUTE_SEED=n` runs one seed.

mod machine;
#[path = "simulation/model.rs"]
mod model;
#[path = "../../cache/tests/simulation/random.rs"]
mod random;
#[path = "simulation/world.rs"]
mod world;

const STEPS: usize = 3_000;

#[test]
fn every_simulated_answer_is_that_of_a_map() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds: u64 = number("ENROUTE_SEEDS").unwrap_or(60);
    let seeds = match number("ENROUTE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..seeds,
    };
    let (mut answers, mut waits, mut recovered) = (0, 0, 0);
    let (mut large, mut refused) = (0, 0);
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| world::run(seed, STEPS)) {
            Ok(seen) => {
                answers += seen.answers;
                waits += seen.waits;
                recovered += seen.recovered;
                large += seen.large;
                refused += seen.refused;
            }
            Err(_) => panic!("seed {seed} fails: run it alone with ENROUTE_SEED={seed}"),
        }
    }
    // Without waits for the disk, and without data that survives a power failure, the simulation
    // proves nothing.
    let seeds = (seeds.end - seeds.start) as usize;
    let counts = format!(
        "{answers} answers, {waits} waits, {recovered} recovered, {large} large and {refused} refused \
                 transactions in {seeds} seeds"
    );
    let transactions = large > seeds && refused >= seeds / 10;
    assert!(
        seeds == 1
            || answers > 300 * seeds && waits > 10 * seeds && recovered > seeds && transactions,
        "{counts}"
    );
}
