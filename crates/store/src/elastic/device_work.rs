//! Commands to the device, and what their ends mean.

use std::time::Duration;

use super::Elastic;
use super::outbox::Purpose;
use super::warming::Walk;
use crate::device::{Completion, DeviceCommand};

impl Elastic {
    /// The next thing the device shall do.
    pub fn poll_device(&mut self, now: Duration) -> Option<DeviceCommand> {
        let command = self.next_command(now);
        // Between two calls it changes little, and every write asks.
        self.compaction_behind = self.is_compaction_behind();
        command
    }

    fn next_command(&mut self, now: Duration) -> Option<DeviceCommand> {
        self.settle();
        if let Some(command) = self.outbox.next() {
            return Some(command);
        }
        if let Some((file, operation, purpose)) = self.log.poll(self.config.sync, now) {
            self.outbox.send(file, operation, Purpose::Log(purpose));
        } else {
            self.compact_some(now);
            self.sweep_some(now);
            // Last, so that they have looked at the pages they asked for.
            self.turn_pages(now);
        }
        self.outbox.next()
    }

    /// Takes the result of a command; true if it is what upkeep waited for, so that
    /// [`Elastic::step`] has something to do at once.
    pub fn complete(&mut self, completion: Completion, now: Duration) -> bool {
        self.settle();
        let Completion { id, result } = completion;
        let purpose = self.outbox.purpose_of(id);
        let is_for_upkeep =
            matches!(purpose, Some(Purpose::Compaction { .. } | Purpose::Sweep { .. }));
        match purpose {
            Some(Purpose::Log(purpose)) => self.log.complete(purpose, result.map(|_| ()), now),
            Some(Purpose::Record { key, slot }) => self.record_read(&key, slot, result),
            Some(Purpose::Page { page, epoch }) if epoch == self.table_epoch => {
                self.page_read(page, result, now);
            }
            Some(Purpose::PageAway { page, epoch }) => {
                self.page_left(page, epoch, result.is_ok(), now);
            }
            Some(Purpose::Compaction { slot }) => self.compaction_read(slot, result, now),
            Some(Purpose::Sweep { slot }) => self.sweep_read(slot, result),
            Some(Purpose::Warm { hash, slot }) => self.warmed(hash, slot, result),
            Some(Purpose::Page { .. }) | None => {}
        }
        is_for_upkeep
    }

    /// When to call [`Elastic::poll_device`] and [`Elastic::step`] at the latest.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let warming = self.walk.as_ref().map(Walk::timeout);
        let times = [self.log.timeout(self.config.sync), self.sweep_timeout(), warming];
        times.into_iter().flatten().min()
    }
}
