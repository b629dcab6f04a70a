//! Two faults at a time, drawn from a printed seed, while Redis clients read and write through the
//! cache: the origin is stopped (SIGSTOP), or killed and restarted, the path to it is cut, the
//! cache is stopped, its feed is cut, its memory is short. The history is linearizable.

use std::env;
use std::path::Path;
use std::time::Duration;

use crate::support::enroute::program;
use crate::support::history::{self, Verdict};
use crate::support::origins::Redis;
use crate::support::redis_history::record_during;
use crate::support::seeds;
use crate::support::troubled::{Fault, Troubled, WITHOUT_FEED};

/// Pause of each client between operations, so that the history of a run can be checked.
const PAUSE: Duration = Duration::from_millis(4);
/// With fewer hits a run proves little.
const HITS_MIN: f64 = 500.0;

/// Checks the history of every pair of faults; `None` if a tool is not installed.
fn history(program: &Path, seed: u64) -> Option<Verdict> {
    history::checker()?;
    // Without fsync: only the process is killed, not the machine.
    let origin = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"])?;
    let faults = [&WITHOUT_FEED[..], &[Fault::FeedCut]].concat();
    Troubled::start(program, origin, seed).history(&faults, HITS_MIN, |cache, start, trouble| {
        record_during(cache, seed, start, PAUSE, trouble)
    })
}

fn is_linearizable(seed: u64) -> Option<()> {
    let verdict = history(&program(), seed)?;
    assert!(verdict.linearizable, "SEED={seed}: {}", verdict.text);
    Some(())
}

#[test]
fn in_every_pair_of_them() {
    seeds::each("redis_two_faults", [1], is_linearizable);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let hour = seeds::fresh_for(Duration::from_secs(3_600));
    seeds::each("redis_two_faults", hour, is_linearizable);
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_without_leases_is_found_out() {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let is_found = |seed| {
        // Without the tools to run it, nothing can be detected.
        history(Path::new(&program), seed).is_none_or(|verdict| !verdict.linearizable)
    };
    assert!(history::seeds().any(is_found), "linearizable every time");
}
