//! Manual commands: repair, move, query. Slots move only under the placer lease.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use state::{
    advice,
    lease::LEASE,
    placer::{Status, published},
    report::{self, TAG},
    slot::Slot,
    view::{Claims, View},
};

use super::{
    cluster::{Access, Cluster},
    lease::{Actor, Lease},
    mover,
};

/// Number of checks after a repair.
const ROUNDS_MAX: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Timeout until nodes know each other's epochs, before a move begins.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// Finds open slots and slots without an owner and, unless `look` is set, repairs them. Returns
/// what was found and what is still open.
///
/// # Errors
/// A node does not reply; or a placer leads, which repairs slots by itself.
pub fn doctor(access: &Access, look: bool) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let mut cluster = Cluster::new(access);
    let view = cluster.view()?;
    let claims = open(&mut cluster, &view, true)?;
    let found = view.findings(&claims);
    if look || found.is_empty() {
        return Ok((found.clone(), found));
    }
    let lease = Lease::new(format!("doctor-{}", std::process::id()));
    let mut view = with_lease_slot(&mut cluster, &lease, view)?;
    hold(&lease, &cluster, &view)?;
    let mut left = Claims::new();
    for round in 0..=ROUNDS_MAX {
        view = cluster.view()?;
        left = open(&mut cluster, &view, true)?;
        if left.is_empty() || round == ROUNDS_MAX {
            break;
        }
        mover::close(Actor { cluster: &cluster, view: &view, lease: &lease }, &left);
        // Nodes may not have received each other's updates yet.
        thread::sleep(PAUSE);
    }
    lease.release(&cluster, &view);
    Ok((found, view.findings(&left)))
}

/// Assigns an owner to the slot of the lease key. A holder cannot renew its lease without that
/// slot, so this waits until the lease has expired; then no placer moves slots.
fn with_lease_slot(cluster: &mut Cluster, lease: &Lease, view: View) -> anyhow::Result<View> {
    let ours = Slot::of(TAG.as_bytes());
    if !view.lost().contains(&ours) {
        return Ok(view);
    }
    thread::sleep(LEASE);
    let view = cluster.view()?;
    let mut claims = cluster.claims(&view, false)?;
    claims.retain(|(slot, _)| *slot == ours && view.lost().contains(slot));
    if lease.take_without_key(cluster, &view) {
        mover::close(Actor { cluster, view: &view, lease }, &claims);
        lease.release(cluster, &view);
    }
    cluster.view()
}

fn open(cluster: &mut Cluster, view: &View, all: bool) -> anyhow::Result<Claims> {
    Ok(view.unfinished(cluster.claims(view, all)?))
}

fn hold(lease: &Lease, cluster: &Cluster, view: &View) -> anyhow::Result<()> {
    let start = Instant::now();
    while !lease.assure(cluster, view) {
        if start.elapsed() > LEASE + Duration::from_secs(1) {
            if let Some(obstacle) = lease.obstacle() {
                bail!("{obstacle}");
            }
            let holder =
                Lease::holder(cluster, view)?.unwrap_or_else(|| "an unknown placer".to_owned());
            bail!(
                "{holder} holds the placer lease; stop it first (a running placer resumes open slot \
                 moves by itself)"
            );
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Moves slots to the node at `to`; those that did not move, and why.
///
/// # Errors
/// There is no such node, or a placer leads.
pub fn relocate(access: &Access, slots: &[Slot], to: SocketAddr) -> anyhow::Result<Vec<String>> {
    let mut cluster = Cluster::new(access);
    let lease = Lease::new(format!("move-{}", std::process::id()));
    let (mut waiting, mut left) = (slots.to_vec(), Vec::new());
    let mut begun = Instant::now();
    let mut view = cluster.view()?;
    while !waiting.is_empty() {
        hold(&lease, &cluster, &view)?;
        view = cluster.view()?;
        // Some of its keys are at the target of an open move, which is completed first.
        let mut open = open(&mut cluster, &view, false)?;
        open.retain(|(slot, _)| waiting.contains(slot));
        if !open.is_empty() {
            mover::close(Actor { cluster: &cluster, view: &view, lease: &lease }, &open);
            view = cluster.view()?;
        }
        let before = waiting.len();
        let moves = view.moves(&waiting, to)?;
        waiting.clear();
        let actor = Actor { cluster: &cluster, view: &view, lease: &lease };
        for (one, outcome) in mover::relocate(actor, moves) {
            match outcome.map(|(ended, _)| mover::refusal(ended)) {
                None => waiting.push(one.slot),
                Some(None) => {}
                Some(Some(why)) => {
                    left.push(format!("slot {} was not moved: {why}", one.slot.number()));
                }
            }
        }
        if waiting.len() < before {
            begun = Instant::now();
        } else if begun.elapsed() > SETTLE_LIMIT {
            bail!(
                "a slot stays open, or the nodes disagree on their epochs: run `enroute state doctor`, check CLUSTER \
                 INFO of each node, then try again"
            );
        } else {
            thread::sleep(PAUSE);
        }
    }
    lease.release(&cluster, &view);
    Ok(left)
}

/// The owner of a slot, the hosts that use it, and what would move it.
///
/// # Errors
/// The cluster does not answer.
pub fn why(access: &Access, slot: Slot) -> anyhow::Result<String> {
    let mut cluster = Cluster::new(access);
    let view = cluster.view()?;
    let owner = view
        .owner(slot)
        .map(|owner| view.member(owner).map(|member| member.address))
        .transpose()?;
    let owner = owner.map_or_else(|| "has no owner".to_owned(), |owner| format!("is at {owner}"));
    let status = status_in(&cluster, &view)?;
    let text = match &status {
        Some(status) => status.why(slot),
        None => "stays: no placer runs (enroute state placer)",
    };
    Ok(format!("slot {} {owner}\n{text}", slot.number()))
}

/// Returns the placer's last published status.
///
/// # Errors
/// The cluster does not answer.
pub fn status(access: &Access) -> anyhow::Result<String> {
    let mut cluster = Cluster::new(access);
    let view = cluster.view()?;
    let holder = Lease::holder(&cluster, &view)?;
    let mut lines = vec![match holder {
        Some(holder) => format!("placer: {holder}"),
        None => "placer: none, slots stay where they are".to_owned(),
    }];
    lines.extend(view.lines());
    if let Some(status) = status_in(&cluster, &view)? {
        lines.extend(status.lines());
    }
    Ok(lines.join("\n"))
}

fn status_in(cluster: &Cluster, view: &View) -> anyhow::Result<Option<Status>> {
    let status = cluster.query_owner(view, TAG.as_bytes(), published())?;
    status.transpose().context("cannot read the status of the placer")
}

/// Groups of keys that share a slot although different hosts use them most, by the hot keys agents
/// report: one line for each slot, with what to do.
///
/// # Errors
/// The cluster does not answer.
pub fn advise_tags(access: &Access) -> anyhow::Result<Vec<String>> {
    let mut cluster = Cluster::new(access);
    let view = cluster.view()?;
    let reports = cluster.query_owner(&view, TAG.as_bytes(), report::all())?;
    let read = reports.into_iter().map(|(agent, report)| {
        let report = report.with_context(|| format!("cannot read the report of agent {agent}"))?;
        Ok((agent, report))
    });
    Ok(advice::on_tags(read.collect::<anyhow::Result<_>>()?))
}
