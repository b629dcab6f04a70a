//! Two faults at a time, drawn from a printed seed, while DynamoDB clients read and write through
//! the cache: the origin is stopped (SIGSTOP), or killed and restarted empty, the path to it is
//! cut, the cache is stopped, its memory is short. The history is linearizable, where each kill
//! empties the origin.

use std::path::Path;
use std::time::Duration;

use crate::support::dynamodb_history::{create_tables, work};
use crate::support::history::{self, Verdict};
use crate::support::origins::DynamoDb;
use crate::support::seeds;
use crate::support::troubled::{Troubled, WITHOUT_FEED, are_linearizable};

/// Pause of each client between operations.
const PAUSE: Duration = Duration::from_millis(5);
/// With fewer hits a run proves little. An item is no hit for two seconds after a write.
const HITS_MIN: f64 = 100.0;

/// Checks the history of every pair of faults; `None` if a tool is not installed.
fn history(program: &Path, seed: u64) -> Option<Verdict> {
    history::checker()?;
    let origin = DynamoDb::start()?;
    create_tables(origin.address());
    Troubled::start(program, origin, seed).history(&WITHOUT_FEED, HITS_MIN, PAUSE, work)
}

#[test]
fn in_every_pair_of_them() {
    are_linearizable("dynamodb_two_faults", [1], history);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let hour = seeds::fresh_for(Duration::from_secs(3_600));
    are_linearizable("dynamodb_two_faults", hour, history);
}
