//! Segments created before they are needed.
//!
//! A segment's room on the disk is allocated when it is created, so a full disk refuses writes and
//! never loses one already accepted. Some spares are not for writers: removals and compaction must
//! continue when the disk is full, because they free space. The last ones are for compaction alone,
//! which can then always finish emptying a segment.

use std::collections::VecDeque;
use std::time::Duration;

use crate::elastic::segment::BLOCK_BYTES;
use crate::elastic::since::Since;

/// Number of spare segments for writers.
const FOR_WRITERS: usize = 2;
/// Number of spare segments for compaction alone: emptying an almost full segment may need more
/// than one.
const FOR_MOVERS: usize = 2;
/// Spares for removals, as a fraction 1/N of the live data, so that removals anywhere in the store
/// free enough for compaction to gain space.
const REMOVERS_SHARE: u64 = 64;
/// On a full disk, space is requested again after this time, or as much as removed segments had.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// A new segment is at most 1/N of the live data, so that spares are a small part of a small store,
/// too.
const LIVE_SHARE: u64 = 64;
/// A segment is at least 1/N of the longest.
const LENGTHS: u64 = 8;
/// Minimum length; a shorter segment would consist of header and footer.
const BYTES_MIN: u64 = 32 << 10;

/// The appending component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::elastic) enum Who {
    /// A client's new data.
    Writer,
    /// Compaction, which finally reclaims space.
    Mover,
    /// Removals, which let compaction reclaim space.
    Remover,
}

/// An unused segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::elastic) struct Spare {
    pub(in crate::elastic) number: u64,
    /// Length of its file.
    pub(in crate::elastic) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Spares {
    ready: VecDeque<Spare>,
    /// Number of spares that were created and are not listed yet.
    unlisted: usize,
    creating: bool,
    next_number: u64,
    /// Time at which the disk was reported full.
    refused: Option<Since>,
    /// Bytes removed since then and not reused. On a full disk no more than this is requested:
    /// otherwise this shard would take the space that another shard has just freed and needs.
    won: u64,
    /// Length of the segment to be made next.
    bytes_next: u64,
    /// Length of segment that the longest record so far needs.
    need_max: u64,
    /// Spares for removals.
    for_removers: usize,
}

/// Bytes of a segment that holds one record, and `lines` lines in its footer.
pub(super) fn need(record_bytes: usize, lines_bytes: usize) -> u64 {
    let whole = |bytes: usize| bytes.next_multiple_of(BLOCK_BYTES) as u64;
    // The header, and a block for the trailer.
    whole(record_bytes) + whole(lines_bytes) + 2 * BLOCK_BYTES as u64
}

impl Spares {
    pub(super) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            unlisted: 0,
            creating: false,
            next_number: 1,
            refused: None,
            won: 0,
            bytes_next: 0,
            need_max: 0,
            for_removers: 1,
        }
    }

    /// Returns the listed spares, the next one to be used first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Spare> {
        self.ready.iter()
    }

    /// The next number; no segment has it or a higher one.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Marks numbers up to this one as used.
    pub(super) fn pass(&mut self, number: u64) {
        self.next_number = self.next_number.max(number + 1);
    }

    /// Notes that a record needs a segment of that length; later segments are not shorter.
    pub(super) fn note_need(&mut self, bytes: u64) {
        self.need_max = self.need_max.max(bytes);
    }

    /// Adds a spare that is listed and may be used.
    pub(super) fn add(&mut self, spare: Spare) {
        self.unlisted = self.unlisted.saturating_sub(1);
        self.ready.push_back(spare);
    }

    /// Whether there are spares that `who` may use.
    pub(super) fn has_for(&self, who: Who) -> bool {
        self.ready.len() > self.reserved_from(who)
    }

    fn reserved_from(&self, who: Who) -> usize {
        match who {
            Who::Writer => FOR_MOVERS + self.for_removers,
            Who::Remover => FOR_MOVERS,
            Who::Mover => 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ready.iter().map(|spare| spare.bytes).sum()
    }

    pub(super) fn first(&self) -> Option<Spare> {
        self.ready.front().copied()
    }

    /// The next spare, if `who` may have it.
    pub(super) fn take(&mut self, who: Who) -> Option<Spare> {
        if self.has_for(who) { self.ready.pop_front() } else { None }
    }

    /// Length of segments created now, in a store of that much live data whose segments are at most
    /// `bytes_max` long.
    pub(super) fn length(&self, live: u64, bytes_max: u64) -> u64 {
        let least = (bytes_max / LENGTHS).max(BYTES_MIN).min(bytes_max);
        let share = 1 << (live / LIVE_SHARE).max(1).ilog2();
        self.need_max.max(share).next_power_of_two().clamp(least, bytes_max)
    }

    /// Returns a spare to create, if one is missing.
    pub(super) fn plan(&mut self, live: u64, bytes_max: u64) -> Option<Spare> {
        let bytes = self.length(live, bytes_max);
        self.bytes_next = bytes;
        self.for_removers = (live / REMOVERS_SHARE / bytes).max(1) as usize;
        if self.ready.len() + self.unlisted >= FOR_WRITERS + FOR_MOVERS + self.for_removers {
            return None;
        }
        self.next_number += 1;
        Some(Spare { number: self.next_number - 1, bytes })
    }

    /// The next spare to create, if one is missing and the disk may have space.
    pub(super) fn missing(&mut self, live: u64, bytes_max: u64, now: Duration) -> Option<Spare> {
        if self.refused.is_some_and(|since| since.is_over(RETRY_AFTER, now)) {
            self.refused = None;
            self.won = 0;
        }
        if self.creating || self.is_full() {
            return None;
        }
        let spare = self.plan(live, bytes_max)?;
        self.creating = true;
        Some(spare)
    }

    /// Ends what [`Spares::missing`] began. The created spare is given to [`Spares::add`] later.
    pub(super) fn created(&mut self, spare: Option<Spare>) {
        self.creating = false;
        self.won = self.won.saturating_sub(spare.map_or(0, |spare| spare.bytes));
        self.unlisted += usize::from(spare.is_some());
    }

    /// The disk is full.
    pub(super) fn note_full(&mut self, now: Duration) {
        self.refused = Some(Since::new(now));
        self.won = 0;
    }

    /// Notes that a segment of `bytes` bytes was removed.
    pub(super) fn note_room(&mut self, bytes: u64) {
        self.won += bytes;
    }

    /// True while the disk is full.
    pub(super) fn is_full(&self) -> bool {
        self.refused.is_some() && self.won < self.bytes_next
    }

    pub(super) fn refused(&self) -> Option<Since> {
        self.refused
    }
}
