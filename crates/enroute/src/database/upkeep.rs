//! The thread that does what time asks of the shards: expiry, compaction, the way to a new budget.

use std::{thread, time::Duration};

use super::Shared;

/// Longest rest between two looks.
const REST_MAX: Duration = Duration::from_millis(10);

/// Looks after the shards until the end, when the disk threads are to end too.
pub(super) fn run(shared: &Shared) {
    // It goes on while the workers end: their last writes may need it to reach the disk.
    while !shared.disk.has_ended() {
        let mut more = false;
        let mut rest = REST_MAX;
        for index in 0..shared.locks.len() {
            let now = shared.now();
            let notices = {
                let mut shard = shared.locks.hold(index);
                more |= shard.expire(now);
                more |= shard.step(now);
                shared.disk.pump(index, &mut shard, now);
                if let Some(at) = shard.store.poll_timeout() {
                    rest = rest.min(at.saturating_sub(now));
                }
                shard.tracking.take_notices()
            };
            shared.server.deliver(notices);
        }
        // Between two portions commands get their turn at the locks.
        if more { thread::yield_now() } else { thread::sleep(rest.max(REST_MIN)) }
    }
}

/// Shortest rest when nothing is to be done at once.
const REST_MIN: Duration = Duration::from_millis(1);
