//! The log: records appended one after another to segment files, in one order.
//!
//! Everything goes through here in the order it was decided, what compaction moves included, so a
//! crash leaves a beginning of that order and never a gap. One device write is under way at a time;
//! what is appended meanwhile shares the next one. A segment is filled, sealed by its footer and
//! trailer, and synced before a byte of the next is written: only the last can be torn.
//!
//! A segment's room on the disk is taken when it is made, so a full disk refuses writes and never
//! loses one already accepted. Of the spare segments one is kept for compaction and one for
//! removals, which must go on when the disk is full, as they are what frees it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use super::record::{Address, Class, Kind, Record, UNIT_BYTES};
use super::segment::{BLOCK_BYTES, Header, LINE_BYTES, Line, Trailer, write_footer};
use super::table::Location;
use super::{Error, Position, Sync};
use crate::device::{FileName, Operation};

/// Spare segments kept, made before they are needed.
pub(super) const SPARES: usize = 4;
/// Written when this much waits, if nobody waits for it.
const WRITE_BYTES: usize = 256 << 10;
/// Written after this time, however little waits.
const WRITE_AFTER: Duration = Duration::from_millis(50);
const SYNC_AFTER: Duration = Duration::from_secs(1);
/// A full disk is asked again after this time, or when a segment was removed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// More than this waiting for the device makes compaction wait, and half of it writers, so that
/// they cannot crowd it out.
pub(super) const BUFFERED_BYTES_MAX: usize = 4 << 20;

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A client's new data.
    Writer,
    /// Compaction, which wins room in the end.
    Mover,
    /// Removals, which let compaction win room.
    Remover,
}

impl Who {
    /// Spare segments that are not for them.
    fn reserved(self) -> usize {
        match self {
            Self::Writer => 2,
            Self::Mover => 1,
            Self::Remover => 0,
        }
    }
}

/// One segment there is.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// Bytes of records the table points to.
    pub(super) live: u64,
    /// No entry here expires before, in seconds.
    pub(super) expires_s: u32,
    /// Holds damage, so it stays.
    pub(super) damaged: bool,
    /// Reads under way.
    pub(super) reads: u32,
    /// What its trailer says, once it is sealed.
    pub(super) trailer: Option<Trailer>,
    /// Nothing here counts once the log is durable up to there.
    pub(super) doomed: Option<u64>,
    removing: bool,
}

impl Segment {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            live: 0,
            expires_s: u32::MAX,
            damaged: false,
            reads: 0,
            trailer: None,
            doomed: None,
            removing: false,
        }
    }

    /// Bytes of its records, dead ones included, once it is sealed.
    pub(super) fn data_bytes(&self) -> u64 {
        self.trailer.map_or(0, |trailer| trailer.data_end - BLOCK_BYTES as u64)
    }
}

#[derive(Debug)]
struct Open {
    slot: usize,
    number: u64,
    /// Where `buffer` begins in the segment, a whole block.
    base: u64,
    buffer: Vec<u8>,
    /// Up to here the segment was handed to the device.
    written: u64,
    /// Up to here it survives a crash.
    durable: u64,
    lines: Vec<Line>,
    version_max: u64,
}

impl Open {
    fn end(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }
}

#[derive(Debug)]
struct Job {
    number: u64,
    base: u64,
    bytes: Arc<Vec<u8>>,
    /// The log is written up to here when this is.
    position: u64,
    /// The last of its segment, to be synced before the next.
    seals: bool,
}

/// Why a command was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    /// Makes the log durable up to a position, and its open segment up to an offset.
    Sync {
        number: u64,
        position: u64,
        offset: u64,
    },
    Create {
        number: u64,
    },
    Remove {
        slot: usize,
    },
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) segment_bytes: u64,
    segments: Vec<Option<Segment>>,
    slot_of: HashMap<u64, usize>,
    open: Option<Open>,
    jobs: VecDeque<Job>,
    writing: bool,
    syncing: bool,
    /// A sealed segment to sync before anything else is written.
    sealed_unsynced: Option<u64>,
    spares: VecDeque<u64>,
    creating: bool,
    next_number: u64,
    floor: u64,
    appended: u64,
    written: u64,
    durable: u64,
    flush_wanted: u64,
    synced_at: Duration,
    unwritten_since: Option<Duration>,
    retry_at: Option<Duration>,
    failed: Option<Error>,
    live: u64,
    /// Bytes of records in sealed segments that are not doomed.
    sealed_bytes: u64,
    /// Slots of segments that are.
    doomed: Vec<usize>,
    /// No entry expires before, in seconds.
    expires_s: u32,
}

impl Log {
    pub(super) fn new(segment_bytes: u64, floor: u64) -> Self {
        Self {
            segment_bytes,
            segments: Vec::new(),
            slot_of: HashMap::new(),
            open: None,
            jobs: VecDeque::new(),
            writing: false,
            syncing: false,
            sealed_unsynced: None,
            spares: VecDeque::new(),
            creating: false,
            next_number: 1,
            floor,
            appended: 0,
            written: 0,
            durable: 0,
            flush_wanted: 0,
            synced_at: Duration::ZERO,
            unwritten_since: None,
            retry_at: None,
            failed: None,
            live: 0,
            sealed_bytes: 0,
            doomed: Vec::new(),
            expires_s: u32::MAX,
        }
    }

    /// Takes in a segment found at the start, or made there.
    pub(super) fn adopt(&mut self, segment: Segment) -> usize {
        let slot = self.segments.iter().position(Option::is_none).unwrap_or(self.segments.len());
        if slot == self.segments.len() {
            self.segments.push(None);
        }
        self.slot_of.insert(segment.number, slot);
        self.next_number = self.next_number.max(segment.number + 1);
        self.sealed_bytes += segment.data_bytes();
        self.expires_s = self.expires_s.min(segment.expires_s);
        self.segments[slot] = Some(segment);
        slot
    }

    /// A number never used before, for a new segment.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(super) fn add_spare(&mut self, number: u64) {
        self.spares.push_back(number);
    }

    pub(super) fn segment(&self, slot: usize) -> &Segment {
        self.segments[slot].as_ref().expect("a segment the table points to is there")
    }

    pub(super) fn segment_mut(&mut self, slot: usize) -> &mut Segment {
        self.segments[slot].as_mut().expect("a segment the table points to is there")
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.segments
            .iter()
            .enumerate()
            .filter_map(|(slot, segment)| Some((slot, segment.as_ref()?)))
    }

    /// Bytes of records the table points to.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes of all files, spares included.
    pub(super) fn file_bytes(&self) -> u64 {
        (self.slot_of.len() + self.spares.len()) as u64 * self.segment_bytes
    }

    /// Bytes of memory held: buffers and footer lines to come.
    pub(super) fn bytes(&self) -> usize {
        let open = self.open.as_ref();
        let lines = open.map_or(0, |open| open.lines.capacity() * size_of::<Line>());
        self.buffered_bytes() + lines + self.segments.len() * size_of::<Segment>() * 2
    }

    fn buffered_bytes(&self) -> usize {
        let jobs: usize = self.jobs.iter().map(|job| job.bytes.len()).sum();
        jobs + self.open.as_ref().map_or(0, |open| open.buffer.len())
    }

    pub(super) fn slot(&self, location: Location) -> usize {
        (location / (self.segment_bytes / UNIT_BYTES as u64)) as usize
    }

    pub(super) fn offset(&self, location: Location) -> u64 {
        location % (self.segment_bytes / UNIT_BYTES as u64) * UNIT_BYTES as u64
    }

    /// Offset and length of what has to be read for a record.
    pub(super) fn extent(&self, location: Location, class: Class) -> (u64, usize) {
        let offset = self.offset(location);
        // The class rounds up, and a segment ends.
        (offset, (class.bytes() as u64).min(self.segment_bytes - offset) as usize)
    }

    pub(super) fn location(&self, slot: usize, offset: u64) -> Location {
        (slot as u64 * self.segment_bytes + offset) / UNIT_BYTES as u64
    }

    pub(super) fn address(&self, location: Location) -> Address {
        Address::new(self.segment(self.slot(location)).number, self.offset(location))
    }

    /// True if a record of that address may still be on disk.
    pub(super) fn has_segment(&self, number: u64) -> bool {
        self.slot_of.contains_key(&number)
    }

    /// True if the segment is sealed, synced, and counts.
    pub(super) fn is_on_disk(&self, slot: usize) -> bool {
        let segment = self.segment(slot);
        segment.trailer.is_some()
            && segment.doomed.is_none()
            && self.sealed_unsynced != Some(segment.number)
            && self.jobs.iter().all(|job| job.number != segment.number)
    }

    /// True if compaction may append: it must neither flood the device nor start what it cannot end.
    pub(super) fn has_room_to_move(&self) -> bool {
        self.failed.is_none() && self.buffered_bytes() < BUFFERED_BYTES_MAX
    }

    /// About how many bytes of records compaction can append before a segment must be made.
    pub(super) fn room_to_move(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| {
            let footer = (open.lines.len() * LINE_BYTES) as u64;
            self.segment_bytes.saturating_sub(open.end() + footer + 4 * BLOCK_BYTES as u64)
        });
        open + self.spares.len().saturating_sub(1) as u64 * self.segment_bytes
    }

    /// True if compaction may take a spare segment.
    pub(super) fn has_spare_to_move(&self) -> bool {
        self.spares.len() > Who::Mover.reserved()
    }

    /// When the first entry anywhere expires, in seconds.
    pub(super) fn expires_s(&self) -> u32 {
        self.expires_s
    }

    /// A segment in which an entry may be over; the time of the next one is worked out if there is
    /// none.
    pub(super) fn due_segment(&mut self, now_s: u32) -> Option<usize> {
        let is_due = |slot: usize, segment: &Segment| {
            segment.expires_s <= now_s
                && (self.is_on_disk(slot)
                    || self.open.as_ref().is_some_and(|open| open.slot == slot))
        };
        let due =
            self.segments().find(|(slot, segment)| is_due(*slot, segment)).map(|(slot, _)| slot);
        if due.is_none() {
            // One still being written is due when it is there.
            let next = self.segments().filter(|(_, segment)| segment.doomed.is_none());
            let next = next.map(|(_, segment)| segment.expires_s).min().unwrap_or(u32::MAX);
            self.expires_s = if next == u32::MAX { next } else { next.max(now_s + 1) };
        }
        due
    }

    pub(super) fn note_expiry(&mut self, slot: usize, expires_s: u32) {
        let segment = self.segment_mut(slot);
        segment.expires_s = segment.expires_s.min(expires_s);
        self.expires_s = self.expires_s.min(expires_s);
    }

    /// Lines of the open segment, for those who would read its footer if it had one.
    pub(super) fn open_lines(&self) -> Option<(usize, &[Line])> {
        self.open.as_ref().map(|open| (open.slot, &open.lines[..]))
    }

    /// The record at `location` and what follows it, as long as the disk may not have it.
    pub(super) fn buffered(&self, location: Location) -> Option<&[u8]> {
        let number = self.segment(self.slot(location)).number;
        let offset = self.offset(location);
        let part = |base: u64, bytes: &'_ [u8]| {
            let start = offset.checked_sub(base)? as usize;
            (start < bytes.len()).then_some(start)
        };
        if let Some(open) = self.open.as_ref().filter(|open| open.number == number)
            && let Some(start) = part(open.base, &open.buffer)
        {
            return Some(&open.buffer[start..]);
        }
        // The newest first: the last block of an older job may have been filled up since.
        self.jobs
            .iter()
            .rev()
            .filter(|job| job.number == number)
            .find_map(|job| Some(&job.bytes[part(job.base, &job.bytes)?..]))
    }

    /// Counts a record the table points to from now on.
    pub(super) fn revive(&mut self, location: Location, class: Class) {
        let slot = self.slot(location);
        self.segment_mut(slot).live += class.bytes() as u64;
        self.live += class.bytes() as u64;
    }

    /// Counts a record the table points to no more.
    pub(super) fn kill(&mut self, location: Location, class: Class) {
        let slot = self.slot(location);
        self.segment_mut(slot).live -= class.bytes() as u64;
        self.live -= class.bytes() as u64;
    }

    pub(super) fn position(&self) -> Position {
        Position(self.appended)
    }

    pub(super) fn durable(&self) -> Position {
        Position(self.durable)
    }

    /// Asks for everything appended so far to become durable now.
    pub(super) fn want_durable(&mut self) -> Position {
        self.flush_wanted = self.appended;
        self.position()
    }

    /// Whether a writer may append now.
    pub(super) fn accepts(&self) -> Result<(), Error> {
        if self.buffered_bytes() > BUFFERED_BYTES_MAX / 2 {
            return Err(self.failed.clone().unwrap_or(self.busy()));
        }
        if self.spares.len() <= Who::Writer.reserved() {
            return Err(self.no_spare());
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn busy(&self) -> Error {
        Error::Busy { buffered_bytes: self.buffered_bytes() }
    }

    fn no_spare(&self) -> Error {
        match &self.failed {
            Some(error) => error.clone(),
            None if self.is_full() => Error::Full { segment_bytes: self.segment_bytes },
            None => self.busy(),
        }
    }

    /// True while the disk has no room.
    pub(super) fn is_full(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Appends a record of a key of `hash`; `hash` of a `Kills` record means nothing.
    ///
    /// # Errors
    /// When another segment is needed and there is none.
    pub(super) fn append(
        &mut self,
        who: Who,
        hash: u64,
        record: Record<'_>,
        now: Duration,
    ) -> Result<(Location, Class), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let lines = match record.kind {
            Kind::Put => 1,
            Kind::Kills => record.body.value.len() / 16,
        };
        if !self.fits(record.bytes(), lines) {
            self.rotate(who)?;
        }
        let open = self.open.as_mut().expect("rotating opened a segment");
        let offset = open.end();
        let record = Record { durable: (open.durable / UNIT_BYTES as u64) as u32, ..record };
        record.write(Address::new(open.number, offset), &mut open.buffer);
        let class = Class::of(record.bytes());
        let line = Line {
            hash,
            offset,
            class: Some(class),
            kills: record.kills,
            expires_s: Line::expires_s(record.body.expires_at),
        };
        let slot = open.slot;
        match record.kind {
            Kind::Put => open.lines.push(line),
            Kind::Kills => open.lines.extend(kills_of(record.body.value).map(|(hash, kills)| {
                Line { hash, offset, class: None, kills, expires_s: u32::MAX }
            })),
        }
        open.version_max = open.version_max.max(record.body.version);
        self.appended += record.bytes() as u64;
        self.unwritten_since.get_or_insert(now);
        self.note_expiry(slot, line.expires_s);
        Ok((self.location(slot, offset), class))
    }

    fn fits(&self, bytes: usize, lines: usize) -> bool {
        let Some(open) = &self.open else { return false };
        let whole = |bytes: usize| bytes.next_multiple_of(BLOCK_BYTES) as u64;
        let footer = whole((open.lines.len() + lines) * LINE_BYTES);
        whole(open.end() as usize + bytes) + footer + BLOCK_BYTES as u64 <= self.segment_bytes
    }

    /// The longest record that fits a segment, in bytes.
    pub(super) fn record_bytes_max(&self) -> usize {
        self.segment_bytes as usize - 4 * BLOCK_BYTES
    }

    /// Seals the open segment and opens the next spare one.
    pub(super) fn rotate(&mut self, who: Who) -> Result<(), Error> {
        if self.spares.len() <= who.reserved() {
            return Err(self.no_spare());
        }
        let number = self.spares.pop_front().expect("there is a spare");
        self.seal();
        let slot = self.adopt(Segment::new(number));
        let mut buffer = Vec::with_capacity(WRITE_BYTES + BLOCK_BYTES);
        Header { number, floor: self.floor }.write(&mut buffer);
        self.open = Some(Open {
            slot,
            number,
            base: 0,
            buffer,
            written: 0,
            durable: 0,
            lines: Vec::new(),
            version_max: 0,
        });
        Ok(())
    }

    /// Drops all segments there are, in favour of a new one.
    pub(super) fn clear(&mut self, now: Duration) -> Result<(), Error> {
        let number = *self.spares.front().ok_or_else(|| self.no_spare())?;
        // What ends before the clearing says nothing of it.
        self.seal();
        self.floor = number;
        self.rotate(Who::Remover)?;
        self.appended += 1;
        let (position, slot) = (self.appended, self.slot_of[&number]);
        self.unwritten_since.get_or_insert(now);
        for other in (0..self.segments.len()).filter(|&other| other != slot) {
            if self.segments[other].as_ref().is_some_and(|segment| segment.doomed.is_none()) {
                self.doom(other, position);
            }
        }
        for segment in self.segments.iter_mut().flatten() {
            segment.live = 0;
        }
        self.live = 0;
        self.flush_wanted = position;
        Ok(())
    }

    /// Gives up a sealed segment once the log is durable up to `position`.
    pub(super) fn doom(&mut self, slot: usize, position: u64) {
        let segment = self.segment_mut(slot);
        segment.doomed = Some(position);
        let data = segment.data_bytes();
        self.sealed_bytes -= data;
        self.doomed.push(slot);
    }

    /// Bytes of records in sealed segments that still count, dead ones included.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes
    }

    fn seal(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        let mut trailer = Trailer {
            number: open.number,
            floor: self.floor,
            data_end: open.end(),
            lines: open.lines.len() as u64,
            footer_checksum: 0,
            version_max: open.version_max,
        };
        open.buffer.resize(open.buffer.len().next_multiple_of(BLOCK_BYTES), 0);
        trailer.footer_checksum = write_footer(&open.lines, &mut open.buffer);
        let mut last = Vec::new();
        trailer.write(&mut last);
        self.push_job(open.number, open.base, open.buffer, false);
        self.push_job(open.number, self.segment_bytes - BLOCK_BYTES as u64, last, true);
        self.segment_mut(open.slot).trailer = Some(trailer);
        self.sealed_bytes += self.segment(open.slot).data_bytes();
    }

    fn push_job(&mut self, number: u64, base: u64, bytes: Vec<u8>, seals: bool) {
        let position = self.appended;
        self.jobs.push_back(Job { number, base, bytes: Arc::new(bytes), position, seals });
        self.unwritten_since = None;
    }

    /// Turns what is buffered into a job, keeping the last block begun.
    fn cut_job(&mut self) {
        let Some(open) = &mut self.open else { return };
        let end = open.end();
        let kept = (end / BLOCK_BYTES as u64 * BLOCK_BYTES as u64 - open.base) as usize;
        let mut next = Vec::with_capacity(WRITE_BYTES + BLOCK_BYTES);
        next.extend_from_slice(&open.buffer[kept..]);
        let mut bytes = std::mem::replace(&mut open.buffer, next);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let (number, base) = (open.number, open.base);
        open.base += kept as u64;
        open.written = end;
        self.push_job(number, base, bytes, false);
    }

    /// The next thing to do for the log, in the order it must be done.
    pub(super) fn poll(
        &mut self,
        sync: Sync,
        now: Duration,
    ) -> Option<(FileName, Operation, Purpose)> {
        self.poll_space(now).or_else(|| self.poll_write(sync, now))
    }

    fn poll_space(&mut self, now: Duration) -> Option<(FileName, Operation, Purpose)> {
        let durable = self.durable;
        for &slot in &self.doomed {
            let segment = self.segments[slot].as_mut().expect("doomed, not yet removed");
            let safe = segment.doomed.is_some_and(|position| position <= durable);
            if safe && !segment.removing && segment.reads == 0 {
                segment.removing = true;
                let file = FileName::Segment(segment.number);
                return Some((file, Operation::Remove, Purpose::Remove { slot }));
            }
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.spares.len() < SPARES && !self.creating && !self.is_full() && self.failed.is_none()
        {
            let number = self.take_number();
            self.creating = true;
            let create = Operation::Create { bytes: self.segment_bytes };
            return Some((FileName::Segment(number), create, Purpose::Create { number }));
        }
        None
    }

    fn poll_write(&mut self, sync: Sync, now: Duration) -> Option<(FileName, Operation, Purpose)> {
        if self.writing || self.syncing || self.failed.is_some() {
            return None;
        }
        if let Some(number) = self.sealed_unsynced {
            return Some(self.sync_command(number, 0));
        }
        if self.jobs.is_empty() && self.is_write_due(sync, now) {
            self.cut_job();
        }
        if let Some(job) = self.jobs.front().filter(|_| !self.is_full()) {
            self.writing = true;
            let write = Operation::Write { offset: job.base, bytes: Arc::clone(&job.bytes) };
            return Some((FileName::Segment(job.number), write, Purpose::Write));
        }
        if self.is_sync_due(sync, now) {
            let open = self.open.as_ref()?;
            let (number, offset) = (open.number, open.written);
            self.synced_at = now;
            return Some(self.sync_command(number, offset));
        }
        None
    }

    fn sync_command(&mut self, number: u64, offset: u64) -> (FileName, Operation, Purpose) {
        self.syncing = true;
        let purpose = Purpose::Sync { number, position: self.written, offset };
        (FileName::Segment(number), Operation::Sync, purpose)
    }

    fn is_write_due(&self, sync: Sync, now: Duration) -> bool {
        let Some(since) = self.unwritten_since else { return false };
        sync == Sync::Always
            || self.flush_wanted > self.written
            || now >= since + WRITE_AFTER
            || self.open.as_ref().is_some_and(|open| open.buffer.len() >= WRITE_BYTES)
    }

    fn is_sync_due(&self, sync: Sync, now: Duration) -> bool {
        self.durable < self.written
            && (self.flush_wanted > self.durable
                || match sync {
                    Sync::Always => true,
                    Sync::EverySecond => now >= self.synced_at + SYNC_AFTER,
                    Sync::Never => false,
                })
    }

    /// When [`Log::poll`] has something to do at the latest, if nothing else happens.
    pub(super) fn timeout(&self, sync: Sync) -> Option<Duration> {
        let write = self.unwritten_since.map(|since| since + WRITE_AFTER);
        let late = self.durable < self.written && sync == Sync::EverySecond;
        let sync = late.then(|| self.synced_at + SYNC_AFTER);
        [write, sync, self.retry_at].into_iter().flatten().min()
    }

    /// Takes the result of a command of [`Log::poll`].
    pub(super) fn complete(&mut self, purpose: Purpose, result: io::Result<()>, now: Duration) {
        match purpose {
            Purpose::Write => self.wrote(result, now),
            Purpose::Sync { number, position, offset } => {
                self.syncing = false;
                match result {
                    Ok(()) => self.synced(number, position, offset),
                    Err(error) => self.fail(number, &error),
                }
            }
            Purpose::Create { number } => {
                self.creating = false;
                match result {
                    Ok(()) => self.spares.push_back(number),
                    Err(error) if is_full(&error) => self.retry_at = Some(now + RETRY_AFTER),
                    Err(error) => self.fail(number, &error),
                }
            }
            Purpose::Remove { slot } => {
                // A file that cannot be removed only takes room; it counts for nothing.
                self.doomed.retain(|&other| other != slot);
                if let Some(segment) = self.segments[slot].take() {
                    self.slot_of.remove(&segment.number);
                }
                self.retry_at = None;
            }
        }
    }

    fn wrote(&mut self, result: io::Result<()>, now: Duration) {
        self.writing = false;
        match result {
            Ok(()) => {
                let job = self.jobs.pop_front().expect("it was being written");
                self.written = job.position;
                if job.seals {
                    self.sealed_unsynced = Some(job.number);
                }
            }
            Err(error) if is_full(&error) => self.retry_at = Some(now + RETRY_AFTER),
            Err(error) => {
                let number = self.jobs.front().map_or(0, |job| job.number);
                self.fail(number, &error);
            }
        }
    }

    fn synced(&mut self, number: u64, position: u64, offset: u64) {
        self.durable = self.durable.max(position);
        if self.sealed_unsynced == Some(number) {
            self.sealed_unsynced = None;
        } else if let Some(open) = self.open.as_mut().filter(|open| open.number == number) {
            open.durable = offset;
        }
    }

    fn fail(&mut self, number: u64, error: &io::Error) {
        let file = FileName::Segment(number);
        self.failed.get_or_insert(Error::WriteFailed { file, reason: error.to_string() });
    }
}

/// The records a `Kills` record lists, each with its key's hash.
pub(super) fn kills_of(value: &[u8]) -> impl Iterator<Item = (u64, Address)> + '_ {
    use super::record::u64_at;
    value.chunks_exact(16).map(|kill| (u64_at(kill, 0), Address(u64_at(kill, 8))))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
