//! Work that no client requested: compaction, the sweep of expired entries, and warming.

use std::time::Duration;

use super::compaction::Compactor;
use super::sweep::Sweeper;
use super::warming::Warmer;
use super::{Elastic, compaction, sweep, warming};

/// Owns the three kinds of maintenance. They share no state.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub(super) compactor: Compactor,
    pub(super) sweeper: Sweeper,
    pub(super) warmer: Warmer,
}

impl Upkeep {
    /// Abandons all work in progress, because all entries were removed.
    pub(super) fn stop(&mut self) {
        self.compactor.stop();
        self.sweeper.stop();
        self.warmer.stop();
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.compactor.bytes() + self.sweeper.bytes()
    }
}

impl Elastic {
    /// Returns the compactor and the parts that it borrows.
    pub(super) fn compactor(&mut self) -> (&mut Compactor, compaction::Borrows<'_>) {
        let borrows = compaction::Borrows {
            log: &mut self.log,
            table: &mut self.table,
            paging: &mut self.paging,
            outbox: &mut self.outbox,
            staging: &mut self.staging,
            ledger: &mut self.ledger,
            hasher: &self.origin.hasher,
        };
        (&mut self.upkeep.compactor, borrows)
    }

    /// Returns the sweeper and the parts that it borrows.
    pub(super) fn sweeper(&mut self) -> (&mut Sweeper, sweep::Borrows<'_>) {
        let borrows = sweep::Borrows {
            log: &mut self.log,
            table: &mut self.table,
            memory: &mut self.memory,
            recent: &mut self.recent,
            staging: &mut self.staging,
            paging: &mut self.paging,
            outbox: &mut self.outbox,
            ledger: &mut self.ledger,
            hasher: &self.origin.hasher,
        };
        (&mut self.upkeep.sweeper, borrows)
    }

    /// Returns the warmer and the parts that it borrows.
    pub(super) fn warmer(&mut self) -> (&mut Warmer, warming::Borrows<'_>) {
        let borrows = warming::Borrows {
            log: &mut self.log,
            table: &mut self.table,
            memory: &mut self.memory,
            paging: &mut self.paging,
            outbox: &mut self.outbox,
            usage: &self.usage,
            ledger: &mut self.ledger,
            hasher: &self.origin.hasher,
        };
        (&mut self.upkeep.warmer, borrows)
    }

    /// Continues compaction and the sweep; true for each that can continue at once.
    pub(super) fn compact_and_sweep(&mut self, now: Duration) -> (bool, bool) {
        let (compactor, mut borrows) = self.compactor();
        let compacting = compactor.step(&mut borrows, now);
        let (sweeper, mut borrows) = self.sweeper();
        (compacting, sweeper.step(&mut borrows, now))
    }

    /// Continues warming; true if it can continue at once.
    pub(super) fn warm_some(&mut self, now: Duration) -> bool {
        let (warmer, mut borrows) = self.warmer();
        warmer.step(&mut borrows, now)
    }

    /// True while memory that grew is being filled.
    pub fn is_warming(&self) -> bool {
        self.upkeep.warmer.is_walking()
    }
}
