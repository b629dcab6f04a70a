//! Moves that the engine makes by itself in one step, or not at all: `CLUSTER MIGRATESLOTS` of
//! Valkey 9.
//!
//! At the end of such a move the source refuses writes but answers reads until it has learned over
//! the cluster bus that the target has taken the slot. A client of the source can read what a key
//! was before a write that the target has acknowledged (`docs/guide/state.md`, Remaining bounds);
//! the tests' histories leave out exactly these reads (`tests/support/handover.rs`). The
//! alternatives are worse: with SETSLOT and MIGRATE keys leave one by one, and a crash leaves the
//! slot open; `CLIENT PAUSE … ALL` at the source makes all its slots wait; agents cannot ask the
//! target before each read, because they do not know which slots move.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use state::{
    engine::{self, Job, Progress},
    members::Member,
    migration::End,
    slot::Slot,
};
use tracing::{debug, info};

use super::{cluster::Cluster, lease::Actor};

/// Polling interval of a migration.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Timeout of a migration.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the migrations that the node knows.
///
/// # Errors
/// It cannot move slots by itself, or does not answer.
pub(super) fn jobs(cluster: &Cluster, node: SocketAddr) -> anyhow::Result<Vec<Job>> {
    cluster.query(node, engine::jobs())
}

/// Starts the move at `source`, and waits for its end or failure; `before` are the migrations that
/// the node listed before.
pub(super) fn relocate(
    actor: Actor<'_>,
    source: SocketAddr,
    target: &Member,
    slot: Slot,
    before: &[Job],
) -> anyhow::Result<End> {
    let start = Instant::now();
    if let Err(why) = actor.run(source, engine::migrate(slot, &target.id))? {
        return Ok(End::Refused(format!("{source} refused to move it: {why}")));
    }
    let is_new = |job: &Job| !before.iter().any(|known| known.name == job.name);
    debug!(slot = slot.number(), %source, "slot move started by the engine");
    loop {
        let jobs = jobs(actor.cluster, source)?;
        let Some(job) = jobs.iter().find(|job| is_new(job) && job.exports(slot)) else {
            bail!("{source} does not list the requested move of slot {}", slot.number());
        };
        match job.progress() {
            Progress::Moved => {
                info!(slot = slot.number(), took = ?start.elapsed(), "slot move finished");
                return Ok(End::Moved);
            }
            Progress::Failed => return Ok(End::Refused(why(actor.cluster, target.address, job))),
            Progress::Runs if start.elapsed() > LIMIT => return Ok(End::Open),
            Progress::Runs => thread::sleep(LOOK_PAUSE),
        }
    }
}

/// Returns the reason why a migration failed. The source's message refers to the target, which
/// knows the migration by the same name.
fn why(cluster: &Cluster, target: SocketAddr, job: &Job) -> String {
    let there = jobs(cluster, target).unwrap_or_default();
    match there.iter().find(|there| there.name == job.name).map(|there| there.message.as_str()) {
        Some(message) if !message.is_empty() => format!("{target} refuses keys: {message}"),
        _ => format!("the server cancelled the move: {}", job.message),
    }
}
