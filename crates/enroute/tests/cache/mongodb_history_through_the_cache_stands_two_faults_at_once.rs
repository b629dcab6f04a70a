//! Two faults at a time, drawn from a printed seed, while MongoDB clients read and write through
//! the cache: the origin is stopped (SIGSTOP), or killed and restarted empty, the path to it is
//! cut, the cache is stopped, its memory is short. The history is linearizable, where each kill
//! empties the origin.

use std::path::Path;
use std::time::Duration;

use crate::support::enroute::broken_program;
use crate::support::history::{self, Verdict};
use crate::support::mongodb_history::work;
use crate::support::origins::Mongo;
use crate::support::seeds;
use crate::support::troubled::{Troubled, WITHOUT_FEED, are_linearizable};

/// Pause of each client between operations.
const PAUSE: Duration = Duration::from_millis(2);
/// With fewer hits a run proves little: a driver retries a lost server every half second.
const HITS_MIN: f64 = 100.0;

/// Checks the history of every pair of faults; `None` if a tool is not installed.
fn history(program: &Path, seed: u64) -> Option<Verdict> {
    history::checker()?;
    let origin = Mongo::start_java()?;
    Troubled::start(program, origin, seed).history(&WITHOUT_FEED, HITS_MIN, PAUSE, work)
}

#[test]
fn in_every_pair_of_them() {
    are_linearizable("mongodb_two_faults", [1], history);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let hour = seeds::fresh_for(Duration::from_secs(3_600));
    are_linearizable("mongodb_two_faults", hour, history);
}

/// The test must detect a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_of_mongodb_without_leases_is_found_out() {
    history::is_found_out(|seed| history(&broken_program(), seed));
}
