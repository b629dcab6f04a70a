//! Two faults at a time, drawn from a printed seed: links are cut, agents and nodes killed, nodes
//! stopped (SIGSTOP), a node's clock is stepped by up to a minute either way, the lease expires
//! early, agents have little memory. Movers are killed as well, and a placer takes over. The
//! history of the clients is linearizable, and the doctor leaves no slot open.

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
