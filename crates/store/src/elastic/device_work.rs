//! Commands to the device, and handling of their completions.

use std::time::Duration;

use super::outbox::Purpose;
use super::paging::Returned;
use super::staged_key::StagedKey;
use super::staging::{self, Staging, State};
use super::{Elastic, Ticket};
use crate::device::{Completion, DeviceCommand};

impl Elastic {
    /// The next command for the device.
    pub fn poll_device(&mut self, now: Duration) -> Option<DeviceCommand> {
        let command = self.next_command(now);
        self.upkeep.compactor.look_behind(&self.log);
        command
    }

    fn next_command(&mut self, now: Duration) -> Option<DeviceCommand> {
        self.recent.settle(&self.log, &mut self.memory);
        if let Some(command) = self.outbox.next() {
            return Some(command);
        }
        if let Some((file, operation, purpose)) = self.log.poll(self.config.sync, now) {
            self.outbox.send(file, operation, Purpose::Log(purpose));
        } else {
            self.compact_and_sweep(now);
            // Last, so that they have used the pages that they requested.
            self.turn_pages(now);
        }
        self.outbox.next()
    }

    /// Takes the result of a command; returns true if maintenance waited for it, so that
    /// [`Elastic::step`] can continue at once.
    pub fn complete(&mut self, completion: Completion, now: Duration) -> bool {
        self.recent.settle(&self.log, &mut self.memory);
        let Completion { id, result } = completion;
        let purpose = self.outbox.purpose_of(id);
        let is_for_upkeep =
            matches!(purpose, Some(Purpose::Compaction { .. } | Purpose::Sweep { .. }));
        match purpose {
            Some(Purpose::Log(purpose)) => self.log.complete(purpose, result.map(|_| ()), now),
            Some(Purpose::Record { key, slot }) => {
                let (staging, mut borrows) = self.staging();
                staging.record_read(&key, slot, result, &mut borrows);
            }
            Some(Purpose::Page { page, epoch }) => {
                let returned = self.paging.read(&mut self.table, (page, epoch), result, now);
                self.page_returned(returned);
            }
            Some(Purpose::PageAway { page, epoch }) => {
                let (page, is_written) = ((page, epoch), result.is_ok());
                let returned = self.paging.left(&mut self.table, page, is_written, now);
                self.page_returned(returned);
            }
            Some(Purpose::Compaction { slot }) => {
                let (compactor, mut borrows) = self.compactor();
                compactor.read_ended(slot, result, &mut borrows, now);
            }
            Some(Purpose::Sweep { slot }) => {
                let (sweeper, mut borrows) = self.sweeper();
                sweeper.read_ended(slot, result, &mut borrows);
            }
            Some(Purpose::Warm { hash, slot }) => {
                let (warmer, mut borrows) = self.warmer();
                warmer.read_ended((hash, slot), result, &mut borrows);
            }
            None => {}
        }
        is_for_upkeep
    }

    /// Latest time of the next call of [`Elastic::poll_device`] and [`Elastic::step`].
    pub fn poll_timeout(&self) -> Option<Duration> {
        let sweep = self.upkeep.sweeper.timeout(&self.log);
        let warming = self.upkeep.warmer.timeout();
        let times = [self.log.timeout(self.config.sync), sweep, warming];
        times.into_iter().flatten().min()
    }

    /// Returns the staging and the parts that it borrows.
    pub(super) fn staging(&mut self) -> (&mut Staging, staging::Borrows<'_>) {
        let borrows = staging::Borrows {
            log: &mut self.log,
            table: &mut self.table,
            memory: &mut self.memory,
            paging: &mut self.paging,
            outbox: &mut self.outbox,
            usage: &mut self.usage,
            ledger: &mut self.ledger,
            hasher: &self.origin.hasher,
        };
        (&mut self.staging, borrows)
    }

    /// Begins to wait for `key`, or joins an existing wait.
    pub(super) fn stage(&mut self, key: &StagedKey, hash: u64) -> Ticket {
        let (staging, mut borrows) = self.staging();
        staging.stage(key, hash, &mut borrows)
    }

    /// Reads `key` from disk again.
    pub(super) fn restart(&mut self, key: &StagedKey) {
        let (staging, mut borrows) = self.staging();
        staging.restart(key, &mut borrows);
    }

    /// Releases a ticket, loaded or not.
    pub fn release(&mut self, ticket: Ticket) {
        self.staging.release(ticket, &mut self.table);
    }

    /// Returns a ticket whose load has ended (loaded, absent or failed), each once.
    pub fn poll_loaded(&mut self) -> Option<Ticket> {
        self.staging.poll_loaded()
    }

    /// Writes pages out and reads others back; returns true if any was written out.
    pub(super) fn turn_pages(&mut self, now: Duration) -> bool {
        let max = self.pages_max();
        let turn = self.paging.turn(&mut self.table, &mut self.outbox, max, now);
        self.ledger.stats.page_reads += turn.reads;
        turn.away > 0
    }

    /// True if writes create pages faster than they can be paged out.
    #[inline]
    pub(super) fn are_pages_behind(&self) -> bool {
        self.paging.are_any_leaving() && self.paging.is_over(&self.table, self.pages_max())
    }

    /// Continues the waits for a page.
    fn page_returned(&mut self, returned: Option<Returned>) {
        let Some(Returned { waiters, result }) = returned else { return };
        if let Err(error) = &result {
            self.ledger.report(error.clone());
        }
        let (staging, mut borrows) = self.staging();
        for waiter in waiters {
            match &result {
                Ok(()) => staging.advance(&waiter, &mut borrows),
                Err(error) => {
                    let (error, location) = (error.clone(), None);
                    staging.resolve(&waiter, State::Failed { error, location }, borrows.table);
                }
            }
        }
    }
}
