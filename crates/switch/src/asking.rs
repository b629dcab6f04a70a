//! Conditions under which a key may be requested from a memcached server.

use std::{
    sync::atomic::Ordering::{AcqRel, Acquire, Relaxed},
    time::Duration,
};

use crate::{
    layout::{HOLDS, Name},
    plane::DataPlane,
};

/// Interval of checks of a held key; most are reported before.
const HELD_WAIT: Duration = Duration::from_millis(50);
/// Idle time after which a connection holds nothing.
const SILENT: Duration = Duration::from_secs(4);
/// Words of a `Flow`: time of its last packet, number of the last reply that left, replies that its
/// writes wait for.
const AT_NS: usize = 5;
const ANSWERED_LAST: usize = 7;
const UNTIL: usize = 21;

/// Whether the key in a place may be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// A reply from now on may be stored under this version and epoch.
    Now {
        /// [`DataPlane::fill`] takes nothing of another.
        version: u64,
        /// [`crate::install::Value::epoch`].
        epoch: u64,
    },
    /// Not before this time; check again then.
    Later(Duration),
    /// Not before the data plane reports it.
    Reported,
}

impl DataPlane {
    /// Whether the key in that place may be requested now.
    pub fn asking(&self, place: u32, now: Duration) -> Asking {
        let Some((version, _)) = self.version(place) else { return Asking::Reported };
        let entry = &self.entries[place as usize];
        let shared = self.shared();
        let epoch = shared.epoch.load(Acquire);
        if entry.leaves.load(Acquire) != 0 {
            return Asking::Reported;
        }
        let from_ns = entry.ask_from_ns.load(Acquire);
        let may = Duration::from_nanos(from_ns.max(shared.fills_blocked_ns.load(Acquire)));
        if may > now {
            Asking::Later(may)
        } else if self.is_held(&entry.name()) {
            Asking::Later(now + HELD_WAIT)
        } else {
            Asking::Now { version, epoch }
        }
    }

    /// Whether a write of that key waits for its answer. Read after the version: a write is counted
    /// before it raises that, and so is either seen here, or keeps what is asked for from being
    /// stored.
    fn is_held(&self, name: &Name) -> bool {
        let first = u64::from_le_bytes(name[..8].try_into().expect("8 bytes"));
        let number = (first >> (u64::BITS - HOLDS.ilog2())) as usize;
        self.held[number / 8][number % 8].load(Acquire) != 0
    }

    /// Ends the holds of writes to which no answer will come: of connections that are over, or
    /// silent.
    pub fn end_holds(&self, now: Duration) {
        for (flow, holds) in self.flows.iter().zip(self.holds.iter()) {
            for (until, hold) in flow[UNTIL..].iter().zip(holds) {
                let made = hold.load(Acquire);
                if made == 0 {
                    continue;
                }
                let at = flow[AT_NS].load(Acquire);
                let waits = until.load(Acquire) > flow[ANSWERED_LAST].load(Acquire)
                    && at != 0
                    && now < Duration::from_nanos(at) + SILENT;
                if !waits && hold.compare_exchange(made, 0, AcqRel, Relaxed).is_ok() {
                    let number = made as usize % HOLDS as usize;
                    self.held[number / 8][number % 8].fetch_sub(1, AcqRel);
                }
            }
        }
    }

    /// Forgets all connections.
    pub fn forget_connections(&self) {
        self.flows.clear();
        // Packets may still pass at another interface and add holds, so they are released one by
        // one, not cleared.
        self.end_holds(Duration::MAX);
    }
}
