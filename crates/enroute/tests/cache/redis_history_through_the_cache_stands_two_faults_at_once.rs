//! Two faults at a time, drawn from a printed seed, while Redis clients read and write through the
//! cache: the origin is stopped (SIGSTOP), or killed and restarted, the path to it is cut, the
//! cache is stopped, its feed is cut, its memory is short. The history is linearizable.

use std::path::Path;
use std::time::Duration;

use crate::support::enroute::broken_program;
use crate::support::history::{self, Verdict};
use crate::support::origins::Redis;
use crate::support::redis_history::work;
use crate::support::seeds;
use crate::support::troubled::{Fault, Troubled, WITHOUT_FEED, are_linearizable};

/// Pause of each client between operations.
const PAUSE: Duration = Duration::from_millis(4);
/// With fewer hits a run proves little.
const HITS_MIN: f64 = 500.0;

/// Checks the history of every pair of faults; `None` if a tool is not installed.
fn history(program: &Path, seed: u64) -> Option<Verdict> {
    history::checker()?;
    // Without fsync: only the process is killed, not the machine.
    let origin = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"])?;
    let faults = [&WITHOUT_FEED[..], &[Fault::FeedCut]].concat();
    Troubled::start(program, origin, seed).history(&faults, HITS_MIN, PAUSE, work)
}

#[test]
fn in_every_pair_of_them() {
    are_linearizable("redis_two_faults", [1], history);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let hour = seeds::fresh_for(Duration::from_secs(3_600));
    are_linearizable("redis_two_faults", hour, history);
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_without_leases_is_found_out() {
    history::is_found_out(|seed| history(&broken_program(), seed));
}
