//! Carries out moves: SETSLOT and MIGRATE, or `CLUSTER MIGRATESLOTS` where the engine has it.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use state::{
    Node as Number,
    migration::{End, KEYS_MAX, Migration, Outcome, Step},
    slot::Slot,
};
use tracing::{debug, info, warn};

use super::{
    cluster::{Cluster, View},
    given_back,
    node::Reply,
};

/// How long one MIGRATE may take, in milliseconds: less than a node may take to answer.
const MIGRATE_MS: &str = "1500";
/// What a source's refusal of a MIGRATE begins with that is the target's.
const OF_TARGET: &str = "ERR Target instance replied with error: ";
/// Between two looks at a migration that the engine carries out.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How long such a migration may take.
const ENGINE_LIMIT: Duration = Duration::from_secs(60);

/// Whether a step may still be taken: a placer whose lease may be over takes none.
pub(super) type May<'a> = &'a mut dyn FnMut(&mut Cluster) -> bool;

/// Moves `slot` to `to`, wherever it is.
pub(super) fn relocate(
    cluster: &mut Cluster,
    view: &View,
    slot: Slot,
    to: Number,
    may: May<'_>,
) -> anyhow::Result<End> {
    let Some(from) = view.owner(slot) else { bail!("nobody owns slot {}", slot.number()) };
    if from == to {
        return Ok(End::Moved);
    }
    let source = view.member(from)?.address;
    // A node that does not know the question moves slots step by step.
    if let Ok(before) = cluster.ask(source, &["CLUSTER", "GETSLOTMIGRATIONS"]) {
        let (number, target) = (slot.number().to_string(), view.member(to)?.id.clone());
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &number, &number, "NODE", &target];
        cluster.ask(source, &words)?;
        return watch(cluster, source, slot, &before);
    }
    Ok(carry_out(cluster, view, Migration::new(slot, from, to, view.others(from, to)), may))
}

/// Takes every step of a migration until it ends, or may not go on.
pub(super) fn carry_out(
    cluster: &mut Cluster,
    view: &View,
    mut migration: Migration,
    may: May<'_>,
) -> End {
    let start = Instant::now();
    let slot = migration.slot();
    loop {
        if let Some(end) = migration.end() {
            info!(slot = slot.number(), ?end, took = ?start.elapsed(), "a slot's move is over");
            return end;
        }
        if !may(cluster) {
            warn!(
                slot = slot.number(),
                "stopped in the middle of a move; who is placer next goes on"
            );
            return End::Open;
        }
        let now = start.elapsed();
        let Some((node, step)) = migration.ready(now) else {
            thread::sleep(LOOK_PAUSE);
            continue;
        };
        let outcome = take(cluster, view, slot, node, &step).unwrap_or_else(|error| {
            warn!(slot = slot.number(), "a step of a move failed: {error:#}");
            Outcome::Failed
        });
        migration.step(outcome, start.elapsed());
    }
}

fn take(
    cluster: &mut Cluster,
    view: &View,
    slot: Slot,
    node: Number,
    step: &Step,
) -> anyhow::Result<Outcome> {
    let address = view.member(node)?.address;
    let number = slot.number().to_string();
    let id = |node: Number| view.member(node).map(|member| member.id.clone());
    let set = |what: &[&str]| {
        let mut words = vec!["CLUSTER".to_owned(), "SETSLOT".to_owned(), number.clone()];
        words.extend(what.iter().map(|&word| word.to_owned()));
        words
    };
    debug!(slot = slot.number(), %address, ?step, "step");
    match step {
        Step::Import { from } => cluster.ask(address, &set(&["IMPORTING", &id(*from)?]))?,
        Step::Migrate { to } => cluster.ask(address, &set(&["MIGRATING", &id(*to)?]))?,
        Step::Own { owner } => cluster.ask(address, &set(&["NODE", &id(*owner)?]))?,
        Step::Stable => cluster.ask(address, &set(&["STABLE"]))?,
        Step::Keys => {
            let words = ["CLUSTER", "GETKEYSINSLOT", &number, &KEYS_MAX.to_string()];
            let Reply::List(keys) = cluster.ask(address, &words)? else { bail!("no list of keys") };
            let keys = keys.into_iter().filter_map(|key| match key {
                Reply::Text(key) => Some(key),
                _ => None,
            });
            return Ok(Outcome::Keys(keys.collect()));
        }
        Step::Move { to, keys } => {
            let to = view.member(*to)?.address;
            let (ip, port) = (to.ip().to_string(), to.port().to_string());
            let mut words: Vec<&[u8]> = vec![b"MIGRATE", ip.as_bytes(), port.as_bytes(), b"", b"0"];
            words.extend([MIGRATE_MS.as_bytes(), b"REPLACE"]);
            let login = cluster.login().cloned();
            if let Some(login) = &login {
                words.extend([b"AUTH2", &login.user[..], &login.password[..]]);
            }
            words.push(b"KEYS");
            words.extend(keys.iter().map(Vec::as_slice));
            return match cluster.ask_all(address, &[words])?.pop() {
                Some(Reply::Error(error)) => match error.strip_prefix(OF_TARGET) {
                    Some(why) => Ok(Outcome::Refused(format!("{to} refuses keys: {why}"))),
                    None => bail!("{address} refuses MIGRATE: {error}"),
                },
                _ => Ok(Outcome::Done),
            };
        }
        Step::Read { from, keys } => {
            let values = given_back::read(cluster, address, slot, &id(*from)?, keys)?;
            return Ok(Outcome::Values(values));
        }
        Step::Restore { to, values } => {
            given_back::restore(cluster, address, slot, &id(*to)?, values)?;
            return Ok(Outcome::Done);
        }
        Step::Drop { from, keys } => {
            given_back::drop(cluster, address, slot, &id(*from)?, keys)?;
            return Ok(Outcome::Done);
        }
    };
    Ok(Outcome::Done)
}

/// Waits until the engine (Valkey 9) has moved the slot in one step, or given up; `before` are the
/// migrations it knew before it was asked.
fn watch(
    cluster: &mut Cluster,
    source: SocketAddr,
    slot: Slot,
    before: &Reply,
) -> anyhow::Result<End> {
    let start = Instant::now();
    let known: Vec<String> = before.list().iter().filter_map(|job| value(job, "name")).collect();
    let number = slot.number().to_string();
    let ranges = [format!("{number}-{number}"), number];
    let is_ours = |job: &&Reply| {
        value(job, "name").is_some_and(|name| !known.contains(&name))
            && value(job, "operation").as_deref() == Some("EXPORT")
            && value(job, "slot_ranges").is_some_and(|found| ranges.contains(&found))
    };
    loop {
        let jobs = cluster.ask(source, &["CLUSTER", "GETSLOTMIGRATIONS"])?;
        let job = jobs.list().iter().find(is_ours);
        match job.and_then(|job| value(job, "state")).as_deref() {
            Some("success") => {
                info!(slot = slot.number(), took = ?start.elapsed(), "a slot's move is over");
                return Ok(End::Moved);
            }
            Some("failed" | "cancelled") => {
                let why = job.and_then(|job| value(job, "message")).unwrap_or_default();
                return Ok(End::Refused(format!("the engine gave the move up: {why}")));
            }
            Some(_) if start.elapsed() > ENGINE_LIMIT => return Ok(End::Open),
            Some(_) => thread::sleep(LOOK_PAUSE),
            None => bail!(
                "{source} knows nothing of the move of slot {} it was asked for",
                slot.number()
            ),
        }
    }
}

/// A field of a job: names and values stand in turn.
fn value(job: &Reply, name: &str) -> Option<String> {
    let fields = job.list();
    let at = fields.iter().position(|field| field.text().as_deref() == Some(name))?;
    fields.get(at + 1)?.text()
}
