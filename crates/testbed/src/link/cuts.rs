//! Interruptions of a path: scheduled in advance, or made by hand.

use std::ops::Range;
use std::time::Duration;

/// The interruptions of a path. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    ranges: Vec<Range<Duration>>,
    by_hand: bool,
}

impl Cuts {
    /// A path cut throughout each of these ranges of time since its start; they may overlap.
    #[must_use]
    pub fn new(ranges: Vec<Range<Duration>>) -> Self {
        Self { ranges, by_hand: false }
    }

    /// Cuts the path in addition to the ranges, or ends that cut.
    pub fn set_by_hand(&mut self, cut: bool) {
        self.by_hand = cut;
    }

    /// Whether the path is cut.
    #[must_use]
    pub fn is_cut(&self, now: Duration) -> bool {
        self.by_hand || self.ranges.iter().any(|range| range.contains(&now))
    }

    /// The next time after `now` at which a range begins or ends.
    #[must_use]
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let changes = self.ranges.iter().flat_map(|range| [range.start, range.end]);
        changes.filter(|change| *change > now && *change < Duration::MAX).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn ranges_begin_and_end() {
        let cuts = Cuts::new(vec![10 * MS..12 * MS, 11 * MS..15 * MS, 20 * MS..Duration::MAX]);
        assert_eq!(cuts.next_change(Duration::ZERO), Some(10 * MS));
        assert!(!cuts.is_cut(9 * MS));
        assert!(cuts.is_cut(10 * MS) && cuts.is_cut(14 * MS));
        assert!(!cuts.is_cut(15 * MS));
        assert!(cuts.is_cut(1000 * MS));
        assert_eq!(cuts.next_change(20 * MS), None);
    }

    #[test]
    fn the_hand_adds_to_the_ranges() {
        let mut cuts = Cuts::new(vec![10 * MS..12 * MS]);
        cuts.set_by_hand(true);
        assert!(cuts.is_cut(MS));
        cuts.set_by_hand(false);
        assert!(!cuts.is_cut(MS));
        assert!(cuts.is_cut(11 * MS));
    }
}
