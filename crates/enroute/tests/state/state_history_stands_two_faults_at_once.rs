//! Two things go wrong at a time, drawn from a printed seed: links are cut, agents and nodes
//! killed, nodes stopped (SIGSTOP), a node's clock steps by up to a minute either way, the lease is
//! over early, agents have little memory; movers are killed besides, and a placer takes over.
//! Clients' history is linearizable all the same, and the doctor leaves nothing open.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use crate::support::{
    moving::{Engine, History},
    seeds,
};

#[test]
fn for_half_a_minute() {
    stands(0, Duration::from_secs(30), 500);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    stands(RandomState::new().hash_one(0_u8), Duration::from_secs(3_600), 100_000);
}

fn stands(seed: u64, lasts: Duration, operations_min: usize) {
    seeds::each("state_two_faults", [seed], |seed| {
        let history = History::new(Engine::Redis, lasts, operations_min);
        let verdict = History { faults_at_once: 2, seed, ..history }.run()?;
        assert!(verdict.linearizable, "{}", verdict.text);
        Some(())
    });
}
