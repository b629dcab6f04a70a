//! Compaction: moves the live items of the segment with the most holes.

use super::{Location, Log, Segment, Stream, UNIT_BYTES, location_at};
use crate::mapping::{PAGE_BYTES, pages};

/// The segment being compacted, and the progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    pub(super) slot: usize,
    offset: usize,
}

impl Log {
    /// Selects the segment with the most dead bytes for compaction, if more than one byte in
    /// `dead_share` is dead and at least one page would be freed. Does nothing while a segment is
    /// being compacted.
    pub(crate) fn begin_compaction(&mut self, dead_share: usize) -> bool {
        debug_assert!(self.compacting.is_none());
        if (self.filled - self.live.min(self.filled)) * dead_share <= self.filled {
            return false;
        }
        let gain = |segment: &Segment| match segment.large {
            0 => pages(segment.used as usize) - pages(segment.live as usize),
            _ => 0,
        };
        let best = (0..self.slots_end).max_by_key(|&slot| gain(&self.segments[slot]));
        // The survivors may start one more page at their new place.
        let Some(slot) = best.filter(|&slot| gain(&self.segments[slot]) > PAGE_BYTES) else {
            return false;
        };
        for open in &mut self.open {
            *open = open.filter(|&other| other != slot);
        }
        self.filled -= pages(self.segments[slot].used as usize);
        self.compacting = Some(Scan { slot, offset: 0 });
        true
    }

    pub(crate) fn is_compacting(&self) -> bool {
        self.compacting.is_some()
    }

    /// Returns the next live item of the segment being compacted, to be relocated or killed before
    /// the next call. Subtracts the examined bytes from `budget`, and stops at zero.
    pub(crate) fn survivor(&mut self, budget: &mut usize) -> Option<Location> {
        while let Some(Scan { slot, offset }) = self.compacting
            && *budget > 0
        {
            let segment = self.segments[slot];
            if segment.live == 0 || offset >= segment.used as usize {
                debug_assert_eq!(segment.live, 0, "survivors left behind");
                self.compacting = None;
                self.free(slot);
                return None;
            }
            let location = location_at(slot, offset);
            let bytes = self.shape(location).bytes();
            self.compacting = Some(Scan { slot, offset: offset + bytes });
            *budget = budget.saturating_sub(bytes);
            if !self.header(location).is_dead() {
                return Some(location);
            }
        }
        None
    }

    /// Moves a survivor; `None` when no addresses are left for it.
    pub(crate) fn relocate(&mut self, from: Location) -> Option<Location> {
        let bytes = self.shape(from).bytes();
        let to = self.allocate(Stream::Survivors, bytes)?;
        let start = from as usize * UNIT_BYTES;
        self.arena.copy_within(start..start + bytes, to as usize * UNIT_BYTES);
        self.note_expiry(to);
        self.kill(from);
        Some(to)
    }
}
