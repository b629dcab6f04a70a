//! Counters, and reports of damage.

use std::collections::VecDeque;

use super::{Error, Stats};

/// Reports of damage kept for [`Elastic::poll_damage`](super::Elastic::poll_damage).
const DAMAGE_MAX: usize = 100;

/// Owns the counters, and the reports of damage that were not polled yet.
///
/// Invariant: every report is counted. Up to 100 are kept; the oldest are dropped.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The sizes in it are 0: they are computed on request.
    pub(super) stats: Stats,
    damage: VecDeque<Error>,
}

impl Ledger {
    /// Creates it with the `damage` found when the store was opened.
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

    /// Takes the oldest report.
    pub(super) fn next_damage(&mut self) -> Option<Error> {
        self.damage.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_reports_the_oldest_are_dropped_and_all_are_counted() {
        let mut ledger = Ledger::new(VecDeque::new());
        for limit in 0..DAMAGE_MAX as u64 + 3 {
            ledger.report(Error::StepTooLong { got: 0, limit });
        }
        assert_eq!(ledger.stats.damages, DAMAGE_MAX as u64 + 3);
        let first = ledger.next_damage();
        assert!(matches!(first, Some(Error::StepTooLong { limit: 3, .. })), "{first:?}");
        assert_eq!(std::iter::from_fn(|| ledger.next_damage()).count(), DAMAGE_MAX - 1);
    }
}
