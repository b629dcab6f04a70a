//! Segments made before they are needed.
//!
//! A segment's room on the disk is taken when it is made, so a full disk refuses writes and never
//! loses one already accepted. Of the spares one is kept for compaction and one for removals, which
//! must go on when the disk is full, as they are what frees it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::elastic::segment::BLOCK_BYTES;

/// Spare segments kept.
pub(in crate::elastic) const SPARES: usize = 4;
/// A full disk is asked again after this time, or when a segment was removed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// A new segment is at most this part of what is live, so that spares and the like are a small part
/// of a small store, too.
const LIVE_SHARE: u64 = 64;
/// A segment is at least this part of the longest.
const LENGTHS: u64 = 8;
/// Shorter ones would be all header and footer.
const BYTES_MIN: u64 = 32 << 10;

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::elastic) enum Who {
    /// A client's new data.
    Writer,
    /// Compaction, which wins room in the end.
    Mover,
    /// Removals, which let compaction win room.
    Remover,
}

impl Who {
    /// Spare segments that are not for them.
    pub(super) fn reserved(self) -> usize {
        match self {
            Self::Writer => 2,
            Self::Mover => 1,
            Self::Remover => 0,
        }
    }
}

/// A segment nobody has written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::elastic) struct Spare {
    pub(in crate::elastic) number: u64,
    /// Length of its file.
    pub(in crate::elastic) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Spares {
    ready: VecDeque<Spare>,
    creating: bool,
    next_number: u64,
    /// The disk is full until then.
    retry_at: Option<Duration>,
    /// What the longest record so far needs of a segment.
    need_max: u64,
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
            creating: false,
            next_number: 1,
            retry_at: None,
            need_max: 0,
        }
    }

    /// Numbers up to this one are taken.
    pub(super) fn pass(&mut self, number: u64) {
        self.next_number = self.next_number.max(number + 1);
    }

    /// A record needs a segment of that length: later ones shall be no shorter.
    pub(super) fn note_need(&mut self, bytes: u64) {
        self.need_max = self.need_max.max(bytes);
    }

    pub(super) fn add(&mut self, spare: Spare) {
        self.ready.push_back(spare);
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ready.iter().map(|spare| spare.bytes).sum()
    }

    /// The bytes that are not reserved from `who`.
    pub(super) fn bytes_for(&self, who: Who) -> u64 {
        let usable = self.ready.len().saturating_sub(who.reserved());
        self.ready.iter().take(usable).map(|spare| spare.bytes).sum()
    }

    pub(super) fn first(&self) -> Option<Spare> {
        self.ready.front().copied()
    }

    /// The next spare, if `who` may have it.
    pub(super) fn take(&mut self, who: Who) -> Option<Spare> {
        if self.ready.len() <= who.reserved() { None } else { self.ready.pop_front() }
    }

    /// Length of segments made now, in a store of that much live data whose segments are at most
    /// `bytes_max` long.
    pub(super) fn length(&self, live: u64, bytes_max: u64) -> u64 {
        let least = (bytes_max / LENGTHS).max(BYTES_MIN).min(bytes_max);
        let share = 1 << (live / LIVE_SHARE).max(1).ilog2();
        self.need_max.max(share).next_power_of_two().clamp(least, bytes_max)
    }

    /// One to be made.
    pub(super) fn plan(&mut self, live: u64, bytes_max: u64) -> Spare {
        self.next_number += 1;
        Spare { number: self.next_number - 1, bytes: self.length(live, bytes_max) }
    }

    /// The next to be made, if one is missing and the disk may have room.
    pub(super) fn missing(&mut self, live: u64, bytes_max: u64, now: Duration) -> Option<Spare> {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.ready.len() >= SPARES || self.creating || self.is_full() {
            return None;
        }
        self.creating = true;
        Some(self.plan(live, bytes_max))
    }

    /// The end of what [`Spares::missing`] began.
    pub(super) fn created(&mut self, spare: Option<Spare>) {
        self.creating = false;
        self.ready.extend(spare);
    }

    /// The disk said that it has no room.
    pub(super) fn note_full(&mut self, now: Duration) {
        self.retry_at = Some(now + RETRY_AFTER);
    }

    /// Something was removed.
    pub(super) fn note_room(&mut self) {
        self.retry_at = None;
    }

    /// True while the disk has no room.
    pub(super) fn is_full(&self) -> bool {
        self.retry_at.is_some()
    }

    pub(super) fn retry_at(&self) -> Option<Duration> {
        self.retry_at
    }
}
