//! Carries out moves: SETSLOT and MIGRATE, or what the engine itself does (`engine.rs`) where it
//! can.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use platform::wall_clock;
use state::{
    Node,
    batch::batch,
    members::Member,
    migration::{self, Claim, End, Migration},
    moves::Move,
    scripts,
    slot::Slot,
    view::Claims,
};
use tracing::{info, warn};

use super::{bus::Bus, engine, gate::Gates, lease::Actor, step::take, wave::wave};

/// Interval of checks whether a failed step may be retried.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// No move of a batch begins later than this: then the next review says which are still worth it.
const BATCH_LIMIT: Duration = Duration::from_secs(1);

/// Number of slots announced to a node at once.
const TOLD_MAX: usize = 512;

/// Result of a move, and how long it took; `None` if it has not begun.
pub(super) type Outcome = Option<(anyhow::Result<End>, Duration)>;

/// Carries out those of `moves` that are possible now, in order of priority, and announces them to
/// all nodes. A slot with an open move keeps its target, which holds some of its keys.
pub(super) fn relocate(actor: Actor<'_>, moves: Vec<Move>) -> Vec<(Move, Outcome)> {
    let (start, view) = (Instant::now(), actor.view);
    let (settled, open) = (view.settled(), view.open());
    let (open, moves) = moves.into_iter().partition(|one: &Move| open.contains(&one.slot));
    let (lanes, mut later) = batch(moves, |node| settled.contains(&node));
    later.extend::<Vec<Move>>(open);
    let gates = Gates::default();
    let bus = Bus::new(actor.cluster, view, lanes.iter().flatten().map(|one| one.from));
    let ended = wave(&lanes, |lane| {
        let each = lane.iter().map(|&one| {
            let outcome = gates.pass(one.to, || {
                let begins = start.elapsed() < BATCH_LIMIT && actor.may();
                begins.then(|| {
                    let begun = Instant::now();
                    (relocate_one(actor, &bus, one), begun.elapsed())
                })
            });
            (one, outcome)
        });
        each.collect::<Vec<_>>()
    });
    let later = later.into_iter().map(|one| (one, None));
    let ended: Vec<(Move, Outcome)> = ended.into_iter().flatten().chain(later).collect();
    let moved = ended.iter().filter(|(_, outcome)| matches!(outcome, Some((Ok(End::Moved), _))));
    let moved: Vec<Move> = moved.map(|(one, _)| *one).collect();
    tell(actor, &moved);
    if !moved.is_empty() {
        info!(moved = moved.len(), lanes = lanes.len(), took = ?start.elapsed(), "batch of slot moves finished");
    }
    ended
}

/// Returns the reason why a move failed; `None` if it succeeded.
pub(super) fn refusal(ended: anyhow::Result<End>) -> Option<String> {
    ended.map_or_else(|error| Some(format!("{error:#}")), End::refusal)
}

/// Completes open moves; returns the slots that were rolled back, with the reasons.
pub(super) fn close(actor: Actor<'_>, claims: &Claims) -> Vec<(Slot, String)> {
    let Actor { cluster, view, .. } = actor;
    let (mut moved, mut refused) = (Vec::new(), Vec::new());
    let resumed = |(slot, claims): &(Slot, Vec<(Node, Claim)>)| {
        let migration = view.resume(*slot, claims, turn())?;
        info!(slot = slot.number(), ?claims, "resuming an open slot move");
        Some(migration)
    };
    let migrations: Vec<Migration> = claims.iter().filter_map(resumed).collect();
    let sources = || migrations.iter().map(|migration| migration.way().0);
    let (mut bus, mut takers) = (Bus::new(cluster, view, sources()), BTreeSet::new());
    for migration in &migrations {
        let (slot, (from, to)) = (migration.slot(), migration.way());
        if takers.contains(&from) {
            (bus, takers) = (Bus::new(cluster, view, sources()), BTreeSet::new());
        }
        if let Err(error) = bus.is_heard(from, turn()) {
            warn!(slot = slot.number(), "slot move left open; will retry: {error:#}");
            continue;
        }
        takers.insert(to);
        match carry_out(actor, migration.clone()) {
            End::Moved => moved.push(Move { slot, from, to, saves_us: 0.0 }),
            End::Refused(why) => refused.push((slot, why)),
            End::Stayed | End::Open => {}
        }
    }
    tell(actor, &moved);
    refused
}

/// Announces moved slots to all nodes except source and target. Each is informed once: a node that
/// misses it learns it from the others.
fn tell(actor: Actor<'_>, moved: &[Move]) {
    let nodes: Vec<(Node, &Member)> = actor.view.primaries().collect();
    wave(&nodes, |&(node, member)| {
        for news in actor.view.news_for(node, moved).chunks(TOLD_MAX) {
            if !actor.may() {
                return;
            }
            if let Err(error) = actor.run(member.address, scripts::tell(news)) {
                warn!("cannot announce moved slots to node {}: {error:#}", member.address);
                return;
            }
        }
    });
}

fn relocate_one(actor: Actor<'_>, bus: &Bus<'_>, one: Move) -> anyhow::Result<End> {
    let Move { slot, from, to, .. } = one;
    let (source, target) = (actor.view.member(from)?, actor.view.member(to)?);
    // A node without this command moves slots step by step.
    if let Ok(before) = engine::jobs(actor.cluster, source.address) {
        return engine::relocate(actor, source.address, target, slot, &before);
    }
    bus.is_heard(from, turn())?;
    Ok(carry_out(actor, Migration::new(slot, from, to, turn())))
}

/// An epoch later than all before, of any placer: of two placers, one has to wait for the other's
/// lease.
fn turn() -> u64 {
    wall_clock::now().as_nanos() as u64
}

/// Takes every step of a migration until it ends or may not continue.
fn carry_out(actor: Actor<'_>, mut migration: Migration) -> End {
    let start = Instant::now();
    let slot = migration.slot();
    loop {
        if let Some(end) = migration.end() {
            info!(slot = slot.number(), ?end, took = ?start.elapsed(), "slot move finished");
            return end;
        }
        if !actor.may() {
            warn!(
                slot = slot.number(),
                "slot move interrupted: the lease is lost or the process ends; the next placer \
                 resumes it"
            );
            return End::Open;
        }
        let now = start.elapsed();
        let Some((node, step)) = migration.ready(now) else {
            thread::sleep(LOOK_PAUSE);
            continue;
        };
        let outcome = take(actor, &migration, node, &step).unwrap_or_else(|error| {
            warn!(slot = slot.number(), "step of a slot move failed: {error:#}");
            migration::Outcome::Failed
        });
        migration.step(outcome, start.elapsed());
    }
}
