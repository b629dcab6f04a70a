//! What one command asks of the disk.

use smallvec::SmallVec;
use store::elastic::Ticket;

use crate::{
    failure::{Failure, TOO_MUCH_AT_ONCE},
    outcome::Outcome,
};

/// What a key that is awaited keeps beside its record: a page of the storage table, in bytes. If
/// even that is away, it stands for the record, of which nothing is known.
const PAGE_BYTES: usize = 4096;

/// What is being read for a command, by shard.
pub(crate) type Tickets = SmallVec<[(usize, Ticket); 2]>;

/// What a command has asked of the disk, and what it may still ask.
pub(crate) struct Loads {
    /// It is the command's turn to wait for the disk ([`crate::turns`]).
    may_wait: bool,
    /// It needs the disk and has to wait for its turn first.
    crowded: bool,
    /// What may still be read for it, in bytes.
    bytes_left: usize,
    missing: Tickets,
    /// What that will keep in memory, in bytes.
    missing_bytes: usize,
}

impl Loads {
    /// Nothing is asked yet; at most `bytes_max` may be.
    pub(crate) fn new(may_wait: bool, bytes_max: usize) -> Self {
        let missing = Tickets::new();
        Self { may_wait, crowded: false, bytes_left: bytes_max, missing, missing_bytes: 0 }
    }

    /// How a command ends that has asked for something; `None` if all it needs is there.
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

    /// May the disk be asked, at least if what is looked for `is_at_hand`? If not, the command has
    /// to wait for its turn.
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

    /// It waits for this place of shard `index`, too, of which nothing is known.
    pub(super) fn add_unknown(&mut self, index: usize, ticket: Ticket) {
        self.missing.push((index, ticket));
        self.missing_bytes += 2 * PAGE_BYTES;
    }

    /// What the command waits for, and what that will keep in memory, in bytes.
    pub(crate) fn take(&mut self) -> (Tickets, usize) {
        (std::mem::take(&mut self.missing), std::mem::take(&mut self.missing_bytes))
    }

    /// It is the command's turn from now on, whatever others wait for.
    pub(crate) fn allow(&mut self) {
        self.may_wait = true;
    }
}
