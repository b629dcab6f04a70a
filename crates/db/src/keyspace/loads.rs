//! Disk reads of one command.

use smallvec::SmallVec;
use store::elastic::Ticket;

use crate::{
    failure::{Failure, TOO_MUCH_AT_ONCE},
    outcome::Outcome,
};

/// Memory kept for an awaited key besides its record, in bytes: a page of the storage table. If
/// that page is not in memory, this value also stands for the record, whose size is unknown.
const PAGE_BYTES: usize = 4096;

/// Tickets of the disk reads of a command, with their shards.
pub(crate) type Tickets = SmallVec<[(usize, Ticket); 2]>;

/// Disk reads that a command has requested, and its remaining budget.
pub(crate) struct Loads {
    /// The command may wait for the disk now ([`crate::turns`]).
    may_wait: bool,
    /// The command needs the disk and must wait for its turn first.
    crowded: bool,
    /// Bytes that may still be read for the command.
    bytes_left: usize,
    missing: Tickets,
    /// Memory that the requested reads will use, in bytes.
    missing_bytes: usize,
}

impl Loads {
    /// Creates an empty set of reads with a budget of `bytes_max`.
    pub(crate) fn new(may_wait: bool, bytes_max: usize) -> Self {
        let missing = Tickets::new();
        Self { may_wait, crowded: false, bytes_left: bytes_max, missing, missing_bytes: 0 }
    }

    /// Returns how a command ends that has requested reads; `None` if all data it needs is in
    /// memory.
    #[inline]
    pub(crate) fn pending(&self) -> Option<Outcome> {
        if !self.missing.is_empty() {
            Some(Outcome::Wait)
        } else if self.crowded {
            Some(Outcome::Queue)
        } else {
            None
        }
    }

    /// Whether the disk may be read. A command that may not wait yet gets true only if the data
    /// `is_at_hand`; otherwise it must wait for its turn.
    #[inline]
    pub(super) fn may_ask(&mut self, is_at_hand: impl FnOnce() -> bool) -> bool {
        if self.may_wait {
            return true;
        }
        self.crowded = self.crowded || !is_at_hand();
        !self.crowded
    }

    /// The command waits for this record of `bytes` as well.
    pub(super) fn add(
        &mut self,
        index: usize,
        ticket: Ticket,
        bytes: usize,
    ) -> Result<(), Failure> {
        self.missing.push((index, ticket));
        self.missing_bytes += bytes + PAGE_BYTES;
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TOO_MUCH_AT_ONCE)?;
        Ok(())
    }

    /// Adds a read from shard `index` whose size is unknown.
    pub(super) fn add_unknown(&mut self, index: usize, ticket: Ticket) {
        self.missing.push((index, ticket));
        self.missing_bytes += 2 * PAGE_BYTES;
    }

    /// Takes the requested reads and the memory that they will use, in bytes.
    pub(crate) fn take(&mut self) -> (Tickets, usize) {
        (std::mem::take(&mut self.missing), std::mem::take(&mut self.missing_bytes))
    }

    /// Lets the command wait for the disk from now on, whatever other commands wait for.
    pub(crate) fn allow(&mut self) {
        self.may_wait = true;
    }
}
