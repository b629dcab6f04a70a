//! The log: records appended one after another to segment files, in one order.
//!
//! All records are appended here in the order in which they were decided, including those that
//! compaction moves, so a crash leaves a prefix of that order without gaps. One device write is
//! under way at a time; records appended during a sync share the next one. A segment is filled,
//! sealed by its footer and trailer, and synced before a byte of the next is written: only the last
//! one can be torn.
//!
//! Read `appending` first. `commands` has the requests to the device, `segments` the existing
//! segments, `spares` the prepared ones, `listing` their manifest, `pinning` those that a backup
//! copies, `closing` the shutdown, and `step` the groups of records that are recovered together or
//! not at all.
//!
//! Decision: `docs/decisions/0011-elastic-store-log.md`.

mod appending;
mod closing;
mod commands;
mod listing;
mod pinning;
mod segments;
mod spares;
mod step;

use std::collections::VecDeque;
use std::sync::Arc;

use super::parity::Parity;
use super::record::Record;
use super::segment::{BLOCK_BYTES, Footer, LINE_BYTES, Line};
use super::since::Since;
use super::table::Location;
use super::{Error, Position};
use crate::blocks::Blocks;
use crate::device::{FileName, Operation};
pub(super) use commands::Purpose;
use listing::Listing;
pub(super) use pinning::Pinned;
pub(super) use segments::{Segment, Segments};
use spares::Spares;
pub(super) use spares::{Spare, Who};
use step::{Mark, Step};

/// Share of the budget that may wait to be written, if no command waits for it: the CPU cost of a
/// write equals that of tens of kilobytes in it. Small budgets have no room for long writes.
const WRITE_SHARE: usize = 64;
const WRITE_BYTES_MAX: usize = 1 << 20;
const WRITE_BYTES_MIN: usize = 256 << 10;
/// Limit of bytes waiting for the device, above which compaction waits; writers wait above half of
/// it. A quarter of a small budget.
const BUFFERED_BYTES_MAX: usize = 4 << 20;
pub(super) const BUFFERED_BYTES_MIN: usize = 1 << 20;
const BUFFERED_SHARE: usize = 4;

/// Removals are accepted while the open segment has room for this many bytes of them, including
/// lines.
const REMOVALS_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Open {
    slot: usize,
    number: u64,
    /// Length the segment will have: longer than its file if the spare was too short for a record.
    bytes: u64,
    /// Offset of `buffer` in the segment, at a block boundary.
    base: u64,
    buffer: Blocks,
    /// The segment was passed to the device up to here.
    written: u64,
    /// The segment is durable up to here.
    durable: u64,
    footer: Footer,
    /// Parity of the final blocks passed to the device.
    parity: Parity,
    /// Number of lines of its records.
    count: usize,
    /// The lines of a footer; without a footer, the lines of entries that expire.
    lines: Vec<Line>,
    kills: u64,
    version_max: u64,
    /// Contents of the segment before the open step.
    before: Mark,
    /// The segment's header, if a step clears the store by it: written when the rest of the step is
    /// durable.
    header: Option<Blocks>,
}

impl Open {
    fn end(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    /// Notes that the first `bytes` buffered bytes, whole blocks, are final.
    fn note_blocks(&mut self, bytes: usize) {
        if self.footer == Footer::Parity {
            self.parity.add(&self.buffer[..bytes]);
        }
    }
}

#[derive(Debug)]
struct Job {
    number: u64,
    base: u64,
    bytes: Arc<Blocks>,
    /// The log is written up to here when this is.
    position: u64,
    /// The segment is synced before any other write.
    syncs: bool,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) segments: Segments,
    spares: Spares,
    listing: Listing,
    open: Option<Open>,
    /// The form of footer that would have suited the segment sealed last, used for the next one:
    /// room for the footer has to be reserved while a segment is filled.
    footer: Footer,
    step: Step,
    jobs: VecDeque<Job>,
    writing: bool,
    syncing: bool,
    /// A segment to sync before anything else is written.
    sync_first: Option<u64>,
    floor: u64,
    appended: u64,
    written: u64,
    durable: u64,
    flush_wanted: u64,
    synced: Since,
    unwritten: Option<Since>,
    /// No further writes, because a write or sync failed.
    failed: bool,
    /// Only what closing the log needs is still appended.
    is_closing: bool,
    /// Reason why appends are refused.
    refusal: Option<Error>,
    /// Time at which the disk was full for a write that is retried.
    write_refused: Option<Since>,
    /// Maximum of bytes that wait for the device, and the size of one write.
    buffered_bytes_max: usize,
    write_bytes: usize,
    /// The version of the last entry written; records of kills carry it.
    version: u64,
    /// A buffer and lines for reuse: new memory from the system costs more than filling it.
    unused: (Blocks, Vec<Line>),
}

impl Log {
    pub(super) fn new(segment_bytes: u64, floor: u64) -> Self {
        let mut spares = Spares::new();
        // Also if no segment below the floor is left: nothing below the floor counts.
        spares.pass(floor);
        Self {
            segments: Segments::new(segment_bytes),
            spares,
            listing: Listing::default(),
            open: None,
            footer: Footer::Lines,
            step: Step::default(),
            jobs: VecDeque::new(),
            writing: false,
            syncing: false,
            sync_first: None,
            floor,
            appended: 0,
            written: 0,
            durable: 0,
            flush_wanted: 0,
            synced: Since::default(),
            unwritten: None,
            failed: false,
            is_closing: false,
            refusal: None,
            write_refused: None,
            buffered_bytes_max: BUFFERED_BYTES_MAX,
            write_bytes: WRITE_BYTES_MAX,
            version: 0,
            unused: Default::default(),
        }
    }

    /// Skips all numbers below this one, which were used or must not be.
    pub(super) fn pass(&mut self, next: u64) {
        self.spares.pass(next.saturating_sub(1));
    }

    /// Adds a segment found at the start.
    pub(super) fn adopt(&mut self, segment: Segment) -> usize {
        self.spares.pass(segment.number);
        self.segments.adopt(segment)
    }

    /// Notes that an entry of this version was written.
    #[inline]
    pub(super) fn note_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Ensures that new segments have room for a record of `bytes` bytes.
    pub(super) fn note_record(&mut self, bytes: usize) {
        self.spares.note_need(spares::need(bytes, LINE_BYTES));
    }

    /// A segment to be created at the start, if more are needed.
    pub(super) fn plan_spare(&mut self) -> Option<Spare> {
        self.spares.plan(self.segments.live(), self.segments.bytes_max())
    }

    /// Length of segments that are created now.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.spares.length(self.segments.live(), self.segments.bytes_max())
    }

    /// Adds a spare that was created; it will be listed before it is written to.
    pub(super) fn add_spare(&mut self, spare: Spare) {
        self.spares.add(spare);
    }

    /// Bytes of all files, spares included.
    pub(super) fn file_bytes(&self) -> u64 {
        self.segments.file_bytes() + self.spares.bytes() + self.listing.made_bytes()
    }

    /// Sets the limit of data waiting for the device for that budget.
    pub(super) fn fit(&mut self, memory_bytes: usize) {
        self.buffered_bytes_max =
            (memory_bytes / BUFFERED_SHARE).clamp(BUFFERED_BYTES_MIN, BUFFERED_BYTES_MAX);
        self.write_bytes = (memory_bytes / WRITE_SHARE).clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX);
    }

    /// Bytes of memory to be kept for it: at least what may wait for the device.
    pub(super) fn bytes_needed(&self) -> usize {
        self.bytes().max(self.buffered_bytes_max)
    }

    /// Bytes of memory held: buffers and footer lines to come.
    pub(super) fn bytes(&self) -> usize {
        let open = self.open.as_ref();
        let lines = open.map_or(0, |open| open.lines.capacity() * size_of::<Line>());
        let unused = self.unused.0.capacity() + self.unused.1.capacity() * size_of::<Line>();
        self.buffered_bytes() + lines + unused + self.segments.bytes()
    }

    fn buffered_bytes(&self) -> usize {
        let jobs: usize = self.jobs.iter().map(|job| job.bytes.len()).sum();
        jobs + self.open.as_ref().map_or(0, |open| open.buffer.len())
    }

    /// True if the segment is sealed, synced and not doomed.
    pub(super) fn is_on_disk(&self, slot: usize) -> bool {
        let segment = self.segments.at(slot);
        segment.trailer.is_some()
            && segment.doomed.is_none()
            && self.sync_first != Some(segment.number)
            && self.jobs.iter().all(|job| job.number != segment.number)
    }

    /// True if compaction may append: the device is not flooded, and appends are not refused.
    pub(super) fn has_room_to_move(&self) -> bool {
        self.refusal.is_none() && self.buffered_bytes() < self.buffered_bytes_max
    }

    /// Approximate bytes of records that compaction can append before a segment must be created.
    pub(super) fn room_to_move(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| {
            let footer = open.footer.bytes(open.count) as u64;
            open.bytes.saturating_sub(open.end() + footer + 4 * BLOCK_BYTES as u64)
        });
        open + self.spares.bytes()
    }

    /// True if compaction may take a spare segment.
    pub(super) fn has_spare_to_move(&self) -> bool {
        self.spares.has_for(Who::Mover)
    }

    /// Returns a segment in which an entry may have expired; if there is none, computes the time of
    /// the next one.
    pub(super) fn due_segment(&mut self, now_s: u32) -> Option<usize> {
        let is_due = |slot: usize, segment: &Segment| {
            segment.expires_s <= now_s
                && (self.is_on_disk(slot)
                    || self.open.as_ref().is_some_and(|open| open.slot == slot))
        };
        let due = self.segments.iter().find(|(slot, segment)| is_due(*slot, segment));
        let due = due.map(|(slot, _)| slot);
        if due.is_none() {
            self.segments.recount_expiry(now_s);
        }
        due
    }

    /// Lines of the open segment; at least those of entries that expire.
    pub(super) fn open_lines(&self) -> Option<(usize, &[Line])> {
        self.open.as_ref().map(|open| (open.slot, &open.lines[..]))
    }

    /// The record at `location` and the bytes after it, while it may not be on disk yet.
    pub(super) fn buffered(&self, location: Location) -> Option<&[u8]> {
        let number = self.segments.at(self.segments.slot(location)).number;
        let offset = self.segments.offset(location);
        let part = |base: u64, bytes: &'_ [u8]| {
            let start = offset.checked_sub(base)? as usize;
            (start < bytes.len()).then_some(start)
        };
        if let Some(open) = self.open.as_ref().filter(|open| open.number == number)
            && let Some(start) = part(open.base, &open.buffer)
        {
            return Some(&open.buffer[start..]);
        }
        // Newest first: the last block of an older job may have been completed since.
        self.jobs
            .iter()
            .rev()
            .filter(|job| job.number == number)
            .find_map(|job| Some(&job.bytes[part(job.base, &job.bytes)?..]))
    }

    /// The record at `location`, while it may not be on disk yet.
    #[inline]
    pub(super) fn buffered_record(&self, location: Location) -> Option<Record<'_>> {
        Record::parse(self.buffered(location)?).ok()
    }

    pub(super) fn position(&self) -> Position {
        Position(self.appended)
    }

    pub(super) fn durable(&self) -> Position {
        Position(self.durable)
    }

    /// Requests that everything appended so far become durable now.
    pub(super) fn want_durable(&mut self) -> Position {
        self.flush_wanted = self.appended;
        self.position()
    }

    /// Whether a writer may append now.
    #[inline]
    pub(super) fn accepts_writes(&self) -> Result<(), Error> {
        self.accepts(self.spares.has_for(Who::Writer))
    }

    /// Whether some thousand removals may be appended now.
    pub(super) fn accepts_removals(&self) -> Result<(), Error> {
        self.accepts(self.fits(REMOVALS_BYTES, 0) || self.spares.has_for(Who::Remover))
    }

    #[inline]
    fn accepts(&self, has_room: bool) -> Result<(), Error> {
        let is_behind = self.buffered_bytes() > self.buffered_bytes_max / 2;
        if has_room && !is_behind && self.refusal.is_none() {
            return Ok(());
        }
        Err(self.why_not(is_behind))
    }

    /// Returns the reason why nothing is accepted: the device is too slow, the disk is full, or an
    /// error.
    #[cold]
    fn why_not(&self, is_behind: bool) -> Error {
        let full = (is_behind && self.is_write_refused()).then(|| self.full());
        let busy = || if is_behind { self.busy() } else { self.no_spare() };
        self.refusal.clone().or(full).unwrap_or_else(busy)
    }

    fn busy(&self) -> Error {
        Error::Busy { buffered_bytes: self.buffered_bytes() }
    }

    fn no_spare(&self) -> Error {
        match &self.refusal {
            Some(error) => error.clone(),
            None if self.is_full() => self.full(),
            None => self.busy(),
        }
    }

    fn full(&self) -> Error {
        Error::Full { segment_bytes: self.segment_bytes() }
    }

    /// True while the disk has no room.
    pub(super) fn is_full(&self) -> bool {
        self.spares.is_full() || self.write_refused.is_some()
    }

    /// True while even accepted writes wait for space.
    pub(super) fn is_write_refused(&self) -> bool {
        self.write_refused.is_some()
    }

    /// Sum of the bytes appended and the bytes that died: the amount of change since compaction
    /// looked.
    pub(super) fn churn(&self) -> u64 {
        self.appended + self.segments.killed()
    }
}
