//! The maintenance thread of the shards: expiry, compaction, adjustment to a new budget. It also
//! logs damage that they have found.

use std::{
    collections::HashSet,
    iter, thread,
    time::{Duration, Instant},
};

use store::Ring;

use super::{
    Shared,
    disk::{self, Begun, By},
};

/// Maximum interval between checks.
const REST_MAX: Duration = Duration::from_millis(10);

/// Maintains the shards until the end, when it also ends the disk threads.
pub(super) fn run(shared: &Shared) {
    shared.keeper.get_or_init(thread::current);
    let mut damage_said = HashSet::new();
    let mut ring = Ring::new().ok();
    // Continues while the workers end: their last writes may need it to reach the disk.
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
                // No client waits for read-ahead. Other reads have threads, so that they do not
                // wait for other shards.
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
            // Once per place: every lookup of its key finds it again.
            for place in damage {
                if damage_said.len() < DAMAGE_SAID_MAX && !damage_said.contains(&place) {
                    tracing::error!("{place}");
                    damage_said.insert(place);
                }
            }
        }
        // Between two steps it sleeps, so that commands get the locks and the core. Without
        // sleeping, the scheduler would preempt it, possibly while it holds a shard; with yielding,
        // it would wait for the slices of all other threads.
        let rest = if more { began.elapsed().min(REST_MIN) } else { rest.max(REST_MIN) };
        pause(shared, &mut ring, rest);
    }
}

/// Sleeps until the timeout or until it is woken. Completed reads are passed to the shards at once.
fn pause(shared: &Shared, ring: &mut Option<Ring<Begun>>, rest: Duration) {
    let until = Instant::now() + rest;
    let left = || until.saturating_duration_since(Instant::now());
    let mut ended = Vec::new();
    if let Some(ring) = ring {
        disk::submit(ring);
        while ring.is_busy() && !left().is_zero() {
            let left = left();
            if let Err(error) = ring.wait_for(left) {
                tracing::debug!("io_uring: cannot wait for completions: {error}");
                thread::sleep(left);
            }
            disk::take_reads(shared, ring, &mut ended);
            disk::submit(ring);
        }
    }
    thread::park_timeout(left());
}

/// Maximum number of damaged places that are logged; further ones are counted only (`damages` in
/// `GET /stats`).
const DAMAGE_SAID_MAX: usize = 1_000;
/// Shortest rest when nothing is to be done at once.
const REST_MIN: Duration = Duration::from_millis(1);
