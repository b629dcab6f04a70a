//! Segments that a backup copies while the store runs.
//!
//! Compaction may empty a pinned segment, but its file stays until it is no longer pinned. The
//! space of such files does not count as slack, so that writers do not wait for a backup.

use super::Log;

/// What a backup copies of one segment.
#[derive(Debug, Clone, Copy)]
pub(in crate::elastic) struct Pinned {
    pub(in crate::elastic) number: u64,
    /// Length of its file.
    pub(in crate::elastic) bytes: u64,
    /// End of its contents at the point of the backup; zeroes follow.
    pub(in crate::elastic) end: u64,
    /// Whether it is never written again: recovery writes to the last segment that it finds.
    pub(in crate::elastic) is_final: bool,
}

impl Log {
    /// Pins every segment that is needed to open the store as it is now, oldest first.
    pub(in crate::elastic) fn pin(&mut self) -> Vec<Pinned> {
        let open = self.open.as_ref().map(|open| (open.slot, open.end()));
        let kept = self.segments.iter().filter(|(_, segment)| segment.doomed.is_none());
        let mut slots: Vec<(u64, usize)> =
            kept.map(|(slot, segment)| (segment.number, slot)).collect();
        slots.sort_unstable();
        let sealed = slots.iter().filter(|(_, slot)| open.is_none_or(|(open, _)| open != *slot));
        let last_sealed = sealed.map(|(number, _)| *number).max();
        let pin = |(number, slot)| {
            let segment = self.segments.at_mut(slot);
            segment.pins += 1;
            let bytes = segment.bytes;
            let end = open.filter(|(open, _)| *open == slot).map_or(bytes, |(_, end)| end);
            let is_final = Some(number) < last_sealed;
            Pinned { number, bytes, end, is_final }
        };
        slots.into_iter().map(pin).collect()
    }

    /// Ends what [`Log::pin`] began, for one segment.
    pub(in crate::elastic) fn unpin(&mut self, number: u64) {
        if let Some(slot) = self.segments.slot_of(number) {
            self.segments.at_mut(slot).pins -= 1;
        }
    }

    /// Whether everything appended up to `position`, the point at which `pinned` were pinned, is
    /// durable in their files.
    pub(in crate::elastic) fn is_copyable(&self, position: u64, pinned: &[Pinned]) -> bool {
        let is_sealed = |number: u64| {
            let of = pinned.iter().find(|one| one.number == number);
            of.is_some_and(|one| one.end == one.bytes)
        };
        self.durable >= position
            && self.jobs.iter().all(|job| job.position > position || !is_sealed(job.number))
            && self.sync_first.is_none_or(|number| !is_sealed(number))
    }

    /// The reason why nothing more becomes durable, if there is one.
    pub(in crate::elastic) fn refusal(&self) -> Option<&crate::elastic::Error> {
        self.refusal.as_ref()
    }
}
