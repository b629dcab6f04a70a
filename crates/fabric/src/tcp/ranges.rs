//! Disjoint byte ranges in order: what arrived, or was acknowledged, beyond a gap.

#[derive(Debug, Default, Clone)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds `from..to`; returns how many of its bytes are new.
    pub(super) fn insert(&mut self, from: u32, to: u32) -> u32 {
        let first = self.0.partition_point(|range| range.1 < from);
        let last = self.0.partition_point(|range| range.0 <= to);
        if first == last {
            self.0.insert(first, (from, to));
            return to - from;
        }
        let merged = (from.min(self.0[first].0), to.max(self.0[last - 1].1));
        let had: u32 = self.0[first..last].iter().map(|range| range.1 - range.0).sum();
        self.0[first] = merged;
        self.0.drain(first + 1..last);
        merged.1 - merged.0 - had
    }

    /// Forgets everything below `to`.
    pub(super) fn trim(&mut self, to: u32) {
        if self.0.first().is_none_or(|range| range.0 >= to) {
            return;
        }
        let gone = self.0.partition_point(|range| range.1 <= to);
        self.0.drain(..gone);
        if let Some(range) = self.0.first_mut() {
            range.0 = range.0.max(to);
        }
    }

    /// If a range begins at or before `at`, takes it and returns its end.
    pub(super) fn take_first(&mut self, at: u32) -> Option<u32> {
        let &(from, to) = self.0.first()?;
        if from > at {
            return None;
        }
        self.0.remove(0);
        Some(to)
    }

    /// Returns the number of bytes in the ranges.
    pub(super) fn bytes(&self) -> u32 {
        self.0.iter().map(|range| range.1 - range.0).sum()
    }

    /// Returns the number of bytes of `from..to` that are in the ranges.
    pub(super) fn bytes_in(&self, from: u32, to: u32) -> u32 {
        let overlap = |range: &(u32, u32)| range.1.min(to).saturating_sub(range.0.max(from));
        self.0.iter().map(overlap).sum()
    }

    /// The first missing byte at or after `at`, and the end of that gap.
    pub(super) fn gap(&self, at: u32) -> (u32, u32) {
        let mut at = at;
        for range in &self.0 {
            if range.0 > at {
                return (at, range.0);
            }
            at = at.max(range.1);
        }
        (at, u32::MAX)
    }

    /// Offset from which on at least `bytes` are held: gaps below it are considered lost.
    pub(super) fn below_held(&self, bytes: u32) -> u32 {
        let mut above = 0;
        for range in self.0.iter().rev() {
            above += range.1 - range.0;
            if above >= bytes {
                return range.0;
            }
        }
        0
    }
}
