//! Two things go wrong at a time, drawn from a printed seed: links are cut, agents and nodes
//! killed, nodes stopped (SIGSTOP), a node's clock steps by up to a minute either way, the lease is
//! over early, agents have little memory; movers are killed besides, and a placer takes over.
//! Clients' history is linearizable all the same, and the doctor leaves nothing open.

use std::time::Duration;

use crate::support::moving::{Engine, History};

#[test]
fn for_half_a_minute() {
    stands(Duration::from_secs(30), 500);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    stands(Duration::from_secs(3_600), 100_000);
}

fn stands(lasts: Duration, operations_min: usize) {
    let history = History::new(Engine::Redis, lasts, operations_min);
    if let Some(verdict) = (History { faults_at_once: 2, ..history }).run() {
        assert!(verdict.linearizable, "{}", verdict.text);
    }
}
