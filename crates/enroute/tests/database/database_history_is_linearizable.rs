//! Many clients, few keys, a database that is killed with `kill -9`: the history of the clients is
//! linearizable.

use crate::support::database::Database;
use crate::support::history::{self, Verdict};
use crate::support::redis_history::{path_to, record};

#[test]
fn database_history_is_linearizable() {
    for seed in history::seeds().take(1) {
        let Some(verdict) = run("always", 20_000, seed) else { return };
        assert!(verdict.linearizable, "seed {seed}: {}", verdict.text);
    }
}

#[test]
#[ignore = "slow: make soak"]
fn database_history_of_200_000_operations_is_linearizable() {
    let Some(verdict) = run("always", 220_000, 1) else { return };
    assert!(verdict.operations >= 200_000, "{}", verdict.text);
    assert!(verdict.linearizable, "{}", verdict.text);
}

/// With `sync` other than `always` a kill loses acknowledged writes: the test must detect that.
#[test]
#[ignore = "slow: make soak"]
fn a_database_that_acknowledges_too_early_is_found_out() {
    history::is_found_out(|seed| run("everysec", 50_000, seed));
}

/// Returns the checker's verdict.
fn run(sync: &str, operations: usize, seed: u64) -> Option<Verdict> {
    history::checker()?;
    let mut database = Database::start_with(&["--sync", sync, "--workers", "2"]);
    let relay = path_to(&database, seed);
    let history = record(relay.local_addr(), &mut database, &relay, operations, seed);
    let verdict = history::check(&history)?;
    eprintln!("{}", verdict.text);
    Some(verdict)
}
