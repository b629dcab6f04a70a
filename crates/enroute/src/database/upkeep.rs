//! The thread that does what time asks of the shards: expiry, compaction, the way to a new budget. It
//! also says in the log what they have met of damage.

use std::{
    collections::HashSet,
    iter, thread,
    time::{Duration, Instant},
};

use super::{
    Shared,
    disk::{self, By},
    ring::Ring,
};

/// Longest rest between two looks.
const REST_MAX: Duration = Duration::from_millis(10);

/// Looks after the shards until the end, when the disk threads are to end too.
pub(super) fn run(shared: &Shared) {
    shared.keeper.get_or_init(thread::current);
    let mut damage_said = HashSet::new();
    let mut ring = Ring::new().ok();
    // It goes on while the workers end: their last writes may need it to reach the disk.
    while !shared.disk.has_ended() {
        let began = Instant::now();
        let mut more = false;
        let mut rest = REST_MAX;
        for index in 0..shared.locks.len() {
            let now = shared.now();
            let (notices, damage) = {
                let shard = &mut *shared.locks.hold(index);
                more |= shard.expire(now);
                more |= shard.step(now);
                // What is read ahead nobody waits for. Other reads have threads, which wait for no other shard.
                let own = ring.as_mut().filter(|_| shard.store.is_warming());
                let by = own.map_or(By::Others, By::Ring);
                shared.disk.pump_by(by, index, shard, now);
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
        // Between two portions commands get their turn at the locks, and at the core. Who works without rest is
        // interrupted when its slice is over, maybe while it holds a shard; and who yields instead waits for
        // the slices of all others.
        let rest = if more { began.elapsed().min(REST_MIN) } else { rest.max(REST_MIN) };
        pause(shared, &mut ring, rest);
    }
}

/// Rests for so long, or until somebody has something for it. What its reads bring meanwhile the shards get at
/// once.
fn pause(shared: &Shared, ring: &mut Option<Ring>, rest: Duration) {
    let until = Instant::now() + rest;
    let left = || until.saturating_duration_since(Instant::now());
    let mut ended = Vec::new();
    if let Some(ring) = ring {
        ring.submit();
        while ring.is_busy() && !left().is_zero() {
            ring.wait_for(left());
            disk::take_reads(shared, ring, &mut ended);
            ring.submit();
        }
    }
    thread::park_timeout(left());
}

/// Damaged places that are said; further ones are counted only (`damages` in `GET /stats`).
const DAMAGE_SAID_MAX: usize = 1_000;
/// Shortest rest when nothing is to be done at once.
const REST_MIN: Duration = Duration::from_millis(1);
