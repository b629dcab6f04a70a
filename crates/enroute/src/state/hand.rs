//! Manual commands: repair, move, query. Slots move only under the placer lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use state::{
    initiator::Move,
    lease::LEASE,
    migration::Claim,
    slot::{Slot, tag},
};

use super::{
    cluster::{Access, Claims, Cluster, View, without_owner},
    lease::{Actor, Lease},
    mover,
    placer::Status,
    report::{REPORTS, Report, STATUS, TAG},
};

/// Number of checks after a repair.
const ROUNDS_MAX: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Timeout until nodes know each other's epochs, before a move begins.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// What is open, one line each.
fn findings(view: &View, claims: &[(Slot, Vec<(state::Node, Claim)>)]) -> Vec<String> {
    let at = |node: state::Node| {
        view.member(node).map_or_else(
            |_| "a node that left the cluster".to_owned(),
            |member| member.address.to_string(),
        )
    };
    let line = |slot: &Slot, node: state::Node, claim: &Claim| {
        let what = match claim {
            Claim::Migrating(to) => format!("is open: moving from {} to {}", at(node), at(*to)),
            Claim::Importing(from, keys) => {
                format!(
                    "is open: moving to {} from {}, {keys} keys have arrived",
                    at(node),
                    at(*from)
                )
            }
            Claim::Holding(keys) => {
                format!("has {keys} keys at {}, which does not own it", at(node))
            }
        };
        format!("slot {} {what}", slot.number())
    };
    let lost = view.lost.iter().map(|slot| format!("slot {} has no owner", slot.number()));
    let claims = claims.iter().flat_map(|(slot, claims)| {
        let said = claims.iter().filter(|(_, claim)| *claim != Claim::Holding(0));
        said.map(|(node, claim)| line(slot, *node, claim))
    });
    lost.chain(claims).collect()
}

/// Finds open and lost slots and, unless `look` is set, repairs them. Returns what was found and
/// what is still open.
///
/// # Errors
/// A node does not reply; or a placer leads, which repairs slots by itself.
pub fn doctor(access: &Access, look: bool) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let mut cluster = Cluster::new(access);
    let view = cluster.view()?;
    let claims = open(&mut cluster, &view, true)?;
    let found = findings(&view, &claims);
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
    Ok((found, findings(&view, &left)))
}

/// Assigns an owner to the slot of the lease key. A holder cannot renew its lease without that
/// slot, so this waits until the lease has expired; then no placer moves slots.
fn with_lease_slot(cluster: &mut Cluster, lease: &Lease, view: View) -> anyhow::Result<View> {
    let ours = Slot::of(TAG.as_bytes());
    if !view.lost.contains(&ours) {
        return Ok(view);
    }
    thread::sleep(LEASE);
    let view = cluster.view()?;
    let mut claims = cluster.claims(&view, false)?;
    claims.retain(|(slot, _)| *slot == ours && view.lost.contains(slot));
    if lease.take_without_key(cluster, &view) {
        mover::close(Actor { cluster, view: &view, lease }, &claims);
        lease.release(cluster, &view);
    }
    cluster.view()
}

fn open(cluster: &mut Cluster, view: &View, all: bool) -> anyhow::Result<Claims> {
    let claims = cluster.claims(view, all)?;
    let resumes = |(slot, claims): &(Slot, Vec<(state::Node, Claim)>)| {
        view.owner(*slot).is_none() || view.resume(*slot, claims, 0).is_some()
    };
    Ok(claims.into_iter().filter(resumes).collect())
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
                "{holder} holds the placer lease and resumes open slot moves by itself; stop it first"
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
        let moves = moves(&view, &waiting, to)?;
        waiting.clear();
        let actor = Actor { cluster: &cluster, view: &view, lease: &lease };
        for (one, outcome) in mover::relocate(actor, moves) {
            match outcome.map(mover::refusal) {
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

/// What is to move, of these slots, to the node at `to`.
fn moves(view: &View, slots: &[Slot], to: SocketAddr) -> anyhow::Result<Vec<Move>> {
    let target = view.primaries().find(|(_, member)| member.address == to);
    let (to, _) = target.with_context(|| format!("{to} is not a primary of the cluster"))?;
    let way = |&slot: &Slot| {
        let from = view.owner(slot);
        let from = from.with_context(|| without_owner(slot))?;
        Ok(Move { slot, from, to, saves_us: 0.0 })
    };
    let moves = slots.iter().map(way).collect::<anyhow::Result<Vec<Move>>>()?;
    Ok(moves.into_iter().filter(|one| one.from != to).collect())
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
    let known = status.as_ref().and_then(|status| status.why.get(&(slot.number() as u16)));
    let text = match (known, status.is_some()) {
        (Some(why), _) => why.as_str(),
        (None, true) => "stays: it is not used, or many other slots are used more",
        (None, false) => "stays: no placer runs (enroute state placer)",
    };
    Ok(format!("slot {} {owner}\n{text}", slot.number()))
}

/// What the placer last saw and did.
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
    for (_, member) in view.primaries() {
        let slots = member.owned().count();
        let open = member.migrating.len() + member.importing.len();
        let open = if open > 0 { format!(", {open} open") } else { String::new() };
        lines.push(format!("node {}: {slots} slots{open}", member.address));
    }
    if let Some(status) = status_in(&cluster, &view)? {
        lines.push(format!("agents: {}", status.agents.join(", ")));
        let (used, copied) = (status.slots_in_use, status.copied);
        lines.push(format!("slots in use: {used}; slots that agents keep copies of: {copied}"));
        lines.push(format!("accesses wait {:.1} ms per second", status.waits_us / 1e3));
        lines.push(format!("moves: {}, failed: {}", status.moves, status.moves_failed));
        lines.extend(status.latest.iter().map(|line| format!("  {line}")));
    }
    Ok(lines.join("\n"))
}

fn status_in(cluster: &Cluster, view: &View) -> anyhow::Result<Option<Status>> {
    let text = cluster.ask_owner(view, TAG.as_bytes(), &["GET", STATUS])?.text();
    text.map(|text| serde_json::from_str(&text).context("cannot read the status of the placer"))
        .transpose()
}

/// Groups of keys that share a slot although different hosts use them most, by the hot keys agents
/// report: one line for each slot, with what to do.
///
/// # Errors
/// The cluster does not answer.
pub fn advise_tags(access: &Access) -> anyhow::Result<Vec<String>> {
    let mut cluster = Cluster::new(access);
    let view = cluster.view()?;
    let reply = cluster.ask_owner(&view, TAG.as_bytes(), &["HGETALL", REPORTS])?;
    let mut uses: BTreeMap<Slot, BTreeMap<String, Vec<(u64, String)>>> = BTreeMap::new();
    for pair in reply.list().chunks_exact(2) {
        let (Some(host), Some(text)) = (pair[0].text(), pair[1].text()) else { continue };
        let report: Report = serde_json::from_str(&text)
            .with_context(|| format!("cannot read the report of agent {host}"))?;
        for (key, times) in report.hot {
            let slot = Slot::of(key.as_bytes());
            uses.entry(slot).or_default().entry(key).or_default().push((times, host.clone()));
        }
    }
    let ours = Slot::of(TAG.as_bytes());
    Ok(uses
        .into_iter()
        .filter(|(slot, _)| *slot != ours)
        .filter_map(|(slot, keys)| advice(slot, keys))
        .collect())
}

fn advice(slot: Slot, keys: BTreeMap<String, Vec<(u64, String)>>) -> Option<String> {
    let most = |(key, mut hosts): (String, Vec<(u64, String)>)| {
        hosts.sort();
        hosts.pop().map(|(_, host)| (key, host))
    };
    let keys: Vec<(String, String)> = keys.into_iter().filter_map(most).collect();
    let hosts: BTreeSet<&String> = keys.iter().map(|(_, host)| host).collect();
    if hosts.len() < 2 {
        return None;
    }
    let shown: Vec<String> =
        keys.iter().map(|(key, host)| format!("{key} (used most by {host})")).collect();
    let tagged = keys.iter().any(|(key, _)| tag(key.as_bytes()).is_some());
    let then = if tagged {
        "give those of each host a hash tag of their own"
    } else {
        "give each group a hash tag, as in {group}:name"
    };
    Some(format!("slot {}: {}: {then}", slot.number(), shown.join(", ")))
}
