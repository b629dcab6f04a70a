//! While slots move continually and every component is killed occasionally, the history of the
//! agents' clients is linearizable, and the doctor leaves no slot open: with Redis, whose slots
//! move step by step, and with Valkey, whose engine moves them and serves some reads at two nodes
//! (`support/handover.rs`). The test must also detect an agent that reports writes with an unknown
//! outcome as not executed.

use std::time::Duration;

use crate::support::enroute::broken_program;
use crate::support::history::Verdict;
use crate::support::moving::{Engine, History};

const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(300);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn over_redis() {
    is_linearizable(&History::new(Engine::Redis, SHORT, 1_000));
}

#[test]
fn over_valkey() {
    is_linearizable(&History::new(Engine::Valkey, SHORT, 1_000));
}

/// Each handover of a slot takes long enough for both agents to notice it.
#[test]
#[ignore = "slow: make soak"]
fn over_valkey_whose_nodes_hear_late_of_each_other() {
    let bus_delay = Duration::from_millis(400);
    is_linearizable(&History { bus_delay, ..History::new(Engine::Valkey, MINUTE, 1_000) });
}

#[test]
#[ignore = "slow: make soak"]
fn two_hundred_thousand_operations_over_redis() {
    has_200_000_operations(Engine::Redis);
}

#[test]
#[ignore = "slow: make soak"]
fn two_hundred_thousand_operations_over_valkey() {
    has_200_000_operations(Engine::Valkey);
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

fn has_200_000_operations(engine: Engine) {
    // Some reads are left out with Valkey.
    if let Some(verdict) = is_linearizable(&History::new(engine, LONG, 210_000)) {
        assert!(verdict.operations >= 200_000, "{}", verdict.text);
    }
}

fn is_linearizable(history: &History) -> Option<Verdict> {
    let verdict = history.run()?;
    assert!(verdict.linearizable, "{}", verdict.text);
    Some(verdict)
}

fn is_found_out(engine: Engine) {
    let history = History { agents: broken_program(), ..History::new(engine, MINUTE, 1_000) };
    if let Some(verdict) = history.run() {
        assert!(!verdict.linearizable, "{} operations, and nothing is found", verdict.operations);
    }
}
