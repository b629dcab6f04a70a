//! Two faults at a time, drawn from a printed seed, while memcached clients read and write through
//! the cache: the origin is stopped (SIGSTOP), or killed and restarted empty, the path to it is
//! cut, the cache is stopped, its memory is short. The history is linearizable, where each kill
//! empties the origin.

use std::env;
use std::path::Path;
use std::time::Duration;

use crate::support::enroute::program;
use crate::support::history::{self, Verdict};
use crate::support::memcached_history::record_during;
use crate::support::origins::Memcached;
use crate::support::seeds;
use crate::support::troubled::{Troubled, WITHOUT_FEED};

/// Pause of each client between operations, so that the history of a run can be checked.
const PAUSE: Duration = Duration::from_millis(4);
/// With fewer hits a run proves little.
const HITS_MIN: f64 = 500.0;

/// Checks the history of every pair of faults; `None` if a tool is not installed.
fn history(program: &Path, seed: u64) -> Option<Verdict> {
    history::checker()?;
    let origin = Memcached::start()?;
    Troubled::start(program, origin, seed).history(
        &WITHOUT_FEED,
        HITS_MIN,
        |cache, start, trouble| record_during(cache, seed, start, PAUSE, trouble),
    )
}

fn is_linearizable(seed: u64) -> Option<()> {
    let verdict = history(&program(), seed)?;
    assert!(verdict.linearizable, "SEED={seed}: {}", verdict.text);
    Some(())
}

#[test]
fn in_every_pair_of_them() {
    seeds::each("memcached_two_faults", [1], is_linearizable);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let hour = seeds::fresh_for(Duration::from_secs(3_600));
    seeds::each("memcached_two_faults", hour, is_linearizable);
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_memcached_cache_without_leases_is_found_out() {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let is_found = |seed| {
        // Without the tools to run it, nothing can be detected.
        history(Path::new(&program), seed).is_none_or(|verdict| !verdict.linearizable)
    };
    assert!(history::seeds().any(is_found), "linearizable every time");
}
