//! While slots never rest and everything dies now and then, what clients of the agents are told could have come from one copy of
//! the data, and the doctor leaves nothing open: over Redis, whose slots move step by step, and over Valkey, whose
//! engine moves them. The same history finds out an agent that says of writes of unknown fate that they were not executed.

mod support;

use std::env;
use std::time::Duration;

use support::moving::{Engine, History};

const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(300);
const BROKEN: Duration = Duration::from_secs(60);

#[test]
fn over_redis() {
    is_linearizable(&History::new(Engine::Redis, SHORT, 1_000));
}

#[test]
fn over_valkey() {
    is_linearizable(&History::new(Engine::Valkey, SHORT, 1_000));
}

#[test]
#[ignore = "slow: make soak"]
fn two_hundred_thousand_operations_over_redis() {
    is_linearizable(&History::new(Engine::Redis, LONG, 200_000));
}

#[test]
#[ignore = "slow: make soak"]
fn two_hundred_thousand_operations_over_valkey() {
    is_linearizable(&History::new(Engine::Valkey, LONG, 200_000));
}

#[test]
#[ignore = "needs a broken build: make soak"]
fn an_agent_that_denies_writes_is_found_out_over_redis() {
    is_found_out(Engine::Redis);
}

#[test]
#[ignore = "needs a broken build: make soak"]
fn an_agent_that_denies_writes_is_found_out_over_valkey() {
    is_found_out(Engine::Valkey);
}

fn is_linearizable(history: &History) {
    if let Some(verdict) = history.run() {
        assert!(verdict.linearizable, "{}", verdict.text);
    }
}

fn is_found_out(engine: Engine) {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let history = History { agents: program.into(), ..History::new(engine, BROKEN, 1_000) };
    if let Some(verdict) = history.run() {
        assert!(!verdict.linearizable, "{} operations, and nothing is found", verdict.operations);
    }
}
