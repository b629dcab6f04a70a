//! Takes one step of a move at its node. [`state::steps`] defines the commands sent there and the
//! meaning of the replies.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use state::{
    Node,
    migration::{Migration, Outcome, Step},
    scripts::Call,
    steps,
};
use tracing::debug;

use super::{
    cluster::{query, query_all},
    lease::Actor,
};

/// Time that a node which changes the owner of a slot may wait for the other node: less than the
/// rest of a lease minus the duration of a step.
const BUS_LIMIT: Duration = Duration::from_millis(500);
/// Initial polling interval while it waits; doubled each time, since many moves may poll one node.
const BUS_PAUSE: Duration = Duration::from_millis(5);

pub(super) fn take(
    actor: Actor<'_>,
    migration: &Migration,
    node: Node,
    step: &Step,
) -> anyhow::Result<Outcome> {
    let slot = migration.slot();
    let (here, names) = steps::at(actor.view, migration, node, actor.cluster.login())?;
    debug!(slot = slot.number(), address = %here, ?step, "slot move step");
    match step {
        Step::Settle { .. } => {
            // A new connection: those a MIGRATE opened before are older, and so are known to the
            // node.
            let mut connection = actor.cluster.connect(here)?;
            let kills = query(&mut connection, steps::close_senders())?;
            query_all(&mut connection, kills)?;
            let outcome = actor.run_at(&mut connection, steps::call(step, slot, names))?;
            return Ok(outcome.unwrap_or(Outcome::Failed));
        }
        Step::Own { .. } if node == migration.way().0 => {
            once_answered(actor, names.target, names.from, || steps::answered(slot, names.from))?;
        }
        _ => {}
    }
    once_answered(actor, here, names.other, || steps::call(step, slot, names))
}

/// Repeats a step until its node waits for no answer of `other` over the cluster bus.
fn once_answered<'a>(
    actor: Actor<'_>,
    node: SocketAddr,
    other: &str,
    call: impl Fn() -> Call<'a, Option<Outcome>>,
) -> anyhow::Result<Outcome> {
    let (start, mut pause) = (Instant::now(), BUS_PAUSE);
    loop {
        if let Some(outcome) = actor.run(node, call())? {
            return Ok(outcome);
        }
        if start.elapsed() > BUS_LIMIT {
            bail!("{node} got no reply from {other} over the cluster bus within {BUS_LIMIT:?}");
        }
        thread::sleep(pause);
        pause *= 2;
    }
}
