//! Moves that the engine makes by itself in one step, or not at all: `CLUSTER MIGRATESLOTS` of Valkey 9.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use state::{members::Member, migration::End, scripts::MIGRATE_SLOT, slot::Slot};
use tracing::{debug, info};
use wire::resp::Reply;

use super::{cluster::Cluster, lease::Actor};

/// Between two looks at a migration.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How long a migration may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Migrations that the node knows.
///
/// # Errors
/// It cannot move slots by itself, or does not answer.
pub(super) fn jobs(cluster: &Cluster, node: SocketAddr) -> anyhow::Result<Reply> {
    cluster.ask(node, &["CLUSTER", "GETSLOTMIGRATIONS"])
}

/// Has `source` move the slot, and waits until it has, or has given up; `before` are the migrations it knew
/// before.
pub(super) fn relocate(
    actor: Actor<'_>,
    source: SocketAddr,
    target: &Member,
    slot: Slot,
    before: &Reply,
) -> anyhow::Result<End> {
    let start = Instant::now();
    let number = slot.number().to_string();
    let cluster = actor.cluster;
    if let Reply::Error(why) = actor.run(source, MIGRATE_SLOT, &[&number, &target.id])? {
        return Ok(End::Refused(format!("{source} does not move it: {why}")));
    }
    let known: Vec<String> = before.list().iter().filter_map(|job| value(job, "name")).collect();
    let ranges = [format!("{number}-{number}"), number];
    let is_ours = |job: &&Reply| {
        value(job, "name").is_some_and(|name| !known.contains(&name))
            && value(job, "operation").as_deref() == Some("EXPORT")
            && value(job, "slot_ranges").is_some_and(|found| ranges.contains(&found))
    };
    debug!(slot = slot.number(), %source, "slot move started by the engine");
    loop {
        let jobs = jobs(cluster, source)?;
        let job = jobs.list().iter().find(is_ours);
        match job.and_then(|job| value(job, "state")).as_deref() {
            Some("success") => {
                info!(slot = slot.number(), took = ?start.elapsed(), "slot move finished");
                return Ok(End::Moved);
            }
            Some("failed" | "cancelled") => {
                return Ok(End::Refused(why(cluster, target.address, job)));
            }
            Some(_) if start.elapsed() > LIMIT => return Ok(End::Open),
            Some(_) => thread::sleep(LOOK_PAUSE),
            None => bail!("{source} does not list the requested move of slot {}", slot.number()),
        }
    }
}

/// Why a migration failed: the source says to ask the target, which knows it by the same name.
fn why(cluster: &Cluster, target: SocketAddr, job: Option<&Reply>) -> String {
    let of = |field| job.and_then(|job| value(job, field)).unwrap_or_default();
    let there = jobs(cluster, target).unwrap_or(Reply::Null);
    let there = there.list().iter().find(|job| value(job, "name") == Some(of("name")));
    match there.and_then(|job| value(job, "message")).filter(|message| !message.is_empty()) {
        Some(message) => format!("{target} refuses keys: {message}"),
        None => format!("the engine gave the move up: {}", of("message")),
    }
}

/// A field of a job: names and values stand in turn.
fn value(job: &Reply, name: &str) -> Option<String> {
    let fields = job.list();
    let at = fields.iter().position(|field| field.text().as_deref() == Some(name))?;
    fields.get(at + 1)?.text()
}
