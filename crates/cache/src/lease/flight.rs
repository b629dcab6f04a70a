//! What is under way on a key, and the writes to one scope.

use super::{Closed, Ticket, WAITERS_MAX};

/// Writes under way to one scope.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) sent: u32,
    /// The number of these whose answer will never arrive.
    pub(super) lost: u32,
}

impl Writes {
    pub(super) fn are_none(&self) -> bool {
        self.sent == 0
    }

    /// Returns the reason why the scope is closed, if it is.
    pub(super) fn closed(&self) -> Option<Closed> {
        match (self.sent, self.lost) {
            (0, _) => None,
            (_, 0) => Some(Closed::WritePending),
            _ => Some(Closed::Quarantine),
        }
    }
}

/// Leases, writes and waiters of one key.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) leases: u32,
    pub(super) writes: Writes,
    /// Event of the newest lease; a reader waits only for a lease that is still good.
    pub(super) leased_at: u64,
    pub(super) revoked_at: u64,
    pub(super) waiters: Vec<Ticket>,
}

impl Flight {
    /// Whether a read that may still fill is under way, and not too many wait for it.
    pub(super) fn is_worth_a_wait(&self, collection_revoked_at: u64) -> bool {
        let good = self.leased_at >= self.revoked_at.max(collection_revoked_at);
        self.leases > 0 && good && self.waiters.len() < WAITERS_MAX
    }
}
