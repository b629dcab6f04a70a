//! What there is to tell: counters, and reports of damage.

use std::collections::VecDeque;

use super::{Error, Stats};

/// Reports of damage kept for [`Elastic::poll_damage`](super::Elastic::poll_damage).
const DAMAGE_MAX: usize = 100;

/// Owns the counters and the reports of damage that were not asked for yet. It borrows nothing.
///
/// Invariant: every damage reported is counted; the oldest reports are forgotten if there are too
/// many.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Counters. The sizes among them are 0.
    pub(super) stats: Stats,
    damage: VecDeque<Error>,
}

impl Ledger {
    /// `damage` was met when the store was opened.
    pub(super) fn new(damage: VecDeque<Error>) -> Self {
        Self { stats: Stats { damages: damage.len() as u64, ..Stats::default() }, damage }
    }

    pub(super) fn report(&mut self, error: Error) {
        self.stats.damages += 1;
        if self.damage.len() == DAMAGE_MAX {
            self.damage.pop_front();
        }
        self.damage.push_back(error);
    }

    /// The oldest report.
    pub(super) fn next_damage(&mut self) -> Option<Error> {
        self.damage.pop_front()
    }
}
