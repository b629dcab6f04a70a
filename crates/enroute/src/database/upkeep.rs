//! The thread that does what time asks of the shards: expiry, compaction, the way to a new budget. It
//! also says in the log what they have met of damage.

use std::{collections::HashSet, iter, thread, time::Duration};

use super::Shared;

/// Longest rest between two looks.
const REST_MAX: Duration = Duration::from_millis(10);

/// Looks after the shards until the end, when the disk threads are to end too.
pub(super) fn run(shared: &Shared) {
    shared.keeper.get_or_init(thread::current);
    let mut damage_said = HashSet::new();
    // It goes on while the workers end: their last writes may need it to reach the disk.
    while !shared.disk.has_ended() {
        let mut more = false;
        let mut rest = REST_MAX;
        for index in 0..shared.locks.len() {
            let now = shared.now();
            let (notices, damage) = {
                let shard = &mut *shared.locks.hold(index);
                more |= shard.expire(now);
                more |= shard.step(now);
                shared.disk.pump(index, shard, now);
                if let Some(at) = shard.store.poll_timeout() {
                    rest = rest.min(at.saturating_sub(now));
                }
                let damage = iter::from_fn(|| shard.store.poll_damage());
                let damage: Vec<String> =
                    damage.map(|error| format!("{}/{error}", shard.name)).collect();
                (shard.tracking.take_notices(), damage)
            };
            shared.server.deliver(notices);
            // Once: a place is met again by every lookup of its key.
            for place in damage {
                if damage_said.len() < DAMAGE_SAID_MAX && !damage_said.contains(&place) {
                    tracing::error!("{place}");
                    damage_said.insert(place);
                }
            }
        }
        // Between two portions commands get their turn at the locks.
        if more { thread::yield_now() } else { thread::park_timeout(rest.max(REST_MIN)) }
    }
}

/// Damaged places that are said; further ones are counted only (`damages` in `GET /stats`).
const DAMAGE_SAID_MAX: usize = 1_000;
/// Shortest rest when nothing is to be done at once.
const REST_MIN: Duration = Duration::from_millis(1);
