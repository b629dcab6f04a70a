//! Finds expired entries that are not looked up.
//!
//! Every segment has the time of its first expiry, and its lines state which entries expire.
//! Expired entries are therefore removed without reading their records, unless these are short.
//! Expiry here has a resolution of a second; a load compares milliseconds.

use std::io;
use std::time::Duration;

use super::Error;
use super::key_hash::KeyHasher;
use super::ledger::Ledger;
use super::lines::LineReader;
use super::log::Log;
use super::outbox::{Outbox, Purpose};
use super::paging::Paging;
use super::pointing::kill_slot;
use super::recent::Recent;
use super::record::Address;
use super::segment::Line;
use super::staging::Staging;
use super::table::Table;
use crate::device::FileName;
use crate::memory::Memory;

/// Number of lines examined in one step.
const LINES_PER_STEP: usize = 512;
/// Minimum time between two searches of a segment, in seconds.
const REST_S: u32 = 1;

/// A segment being searched.
#[derive(Debug)]
struct Sweep {
    slot: usize,
    number: u64,
    /// `None` if the segment was open when the sweep began.
    reader: Option<LineReader>,
    /// The lines read last; `None` while lines are read.
    lines: Option<Vec<Line>>,
    next: usize,
    /// Earliest expiry among the entries left here, in seconds.
    expires_s: u32,
}

impl Sweep {
    fn bytes(&self) -> usize {
        self.lines.as_ref().map_or(0, |lines| lines.capacity() * size_of::<Line>())
    }
}

fn seconds(now: Duration) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX - 1)
}

/// Owns the segment being searched.
///
/// Invariants: at most one read is in progress; an entry is removed only if no other entry has its
/// hash, because its key is not read.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    begun: Option<Sweep>,
}

/// Other parts of the store that the sweep uses.
pub(super) struct Borrows<'a> {
    pub(super) log: &'a mut Log,
    pub(super) table: &'a mut Table,
    /// Expired entries are removed from it, and from the next two.
    pub(super) memory: &'a mut Memory,
    pub(super) recent: &'a mut Recent,
    pub(super) staging: &'a mut Staging,
    /// Reads back pages of the table that are not in memory.
    pub(super) paging: &'a mut Paging,
    pub(super) outbox: &'a mut Outbox,
    pub(super) ledger: &'a mut Ledger,
    pub(super) hasher: &'a KeyHasher,
}

impl Sweeper {
    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, Sweep::bytes)
    }

    /// Abandons the segment.
    pub(super) fn stop(&mut self) {
        self.begun = None;
    }

    /// Time of the earliest expiry, if no sweep is in progress.
    pub(super) fn timeout(&self, log: &Log) -> Option<Duration> {
        let due = log.segments.expires_s();
        (due != u32::MAX && self.begun.is_none()).then(|| Duration::from_secs(due.into()))
    }

    /// Begins or continues a sweep; returns true if it can continue at once.
    pub(super) fn step(&mut self, borrows: &mut Borrows<'_>, now: Duration) -> bool {
        if borrows.log.is_closing() {
            return false;
        }
        if self.begun.is_none() && borrows.log.segments.expires_s() <= seconds(now) {
            self.begin(borrows.log, now);
        }
        match self.begun.take_if(|sweep| sweep.lines.is_some()) {
            Some(sweep) => self.look_for_expired(sweep, borrows, now),
            None => false,
        }
    }

    fn begin(&mut self, log: &mut Log, now: Duration) {
        let Some(slot) = log.due_segment(seconds(now)) else { return };
        // Records appended from now on are counted from zero.
        log.segments.at_mut(slot).expires_s = u32::MAX;
        let open = log.open_lines().filter(|(open, _)| *open == slot);
        let lines = open.map(|(_, lines)| lines.to_vec());
        let segment = log.segments.at(slot);
        let reader = segment.trailer.map(LineReader::new);
        if lines.is_none() && reader.is_none() {
            return;
        }
        let number = segment.number;
        // The first call has no lines.
        let lines = Some(lines.unwrap_or_default());
        self.begun = Some(Sweep { slot, number, reader, lines, next: 0, expires_s: u32::MAX });
    }

    /// Takes the completed read of the next lines.
    pub(super) fn read_ended(
        &mut self,
        slot: usize,
        result: io::Result<Vec<u8>>,
        borrows: &mut Borrows<'_>,
    ) {
        borrows.log.segments.end_read(slot);
        let Some(mut sweep) = self.begun.take_if(|sweep| sweep.slot == slot) else { return };
        let Some(reader) = &mut sweep.reader else { return };
        let lines = match result {
            Ok(bytes) => reader.take(&bytes, |key| borrows.hasher.hash(key)),
            Err(error) => {
                let file = FileName::Segment(sweep.number);
                let offset = reader.next().map_or(0, |(offset, _)| offset);
                Err(Error::ReadFailed { file, offset, reason: error.to_string() })
            }
        };
        match lines {
            Ok(lines) => {
                (sweep.lines, sweep.next) = (Some(lines), 0);
                self.begun = Some(sweep);
            }
            Err(error) => {
                // The rest of its entries expire when they are looked up.
                borrows.ledger.report(error);
            }
        }
    }

    fn look_for_expired(
        &mut self,
        mut sweep: Sweep,
        borrows: &mut Borrows<'_>,
        now: Duration,
    ) -> bool {
        let now_s = seconds(now);
        // Compaction may have emptied it in between.
        if !borrows.log.segments.has(sweep.number) {
            return true;
        }
        let lines = sweep.lines.as_ref().expect("they were read");
        let until = lines.len().min(sweep.next + LINES_PER_STEP);
        while sweep.next < until {
            let line = lines[sweep.next];
            if line.class.is_some() && line.expires_s != u32::MAX {
                let page = borrows.table.page_of(line.hash);
                if let Some(missing) = borrows.paging.missing(page) {
                    if !missing.is_for_good() {
                        sweep.expires_s = sweep.expires_s.min(now_s + REST_S);
                    }
                    sweep.next += 1;
                    continue;
                }
                if !borrows.table.is_resident(page) {
                    borrows.paging.ask_for_upkeep(page);
                    self.begun = Some(sweep);
                    return false;
                }
                if line.expires_s > now_s {
                    sweep.expires_s = sweep.expires_s.min(line.expires_s);
                } else if !expire_line(borrows, sweep.slot, &line, now) {
                    sweep.expires_s = sweep.expires_s.min(now_s + REST_S);
                }
            }
            sweep.next += 1;
        }
        if sweep.next < lines.len() {
            self.begun = Some(sweep);
            return true;
        }
        if let Some((offset, bytes)) = sweep.reader.as_ref().and_then(LineReader::next) {
            sweep.lines = None;
            let (slot, purpose) = (sweep.slot, Purpose::Sweep { slot: sweep.slot });
            borrows.outbox.read_segment(&mut borrows.log.segments, slot, (offset, bytes), purpose);
            self.begun = Some(sweep);
            return false;
        }
        let expires_s = if sweep.expires_s == u32::MAX {
            u32::MAX
        } else {
            sweep.expires_s.max(now_s + REST_S)
        };
        borrows.log.segments.note_expiry(sweep.slot, expires_s);
        true
    }
}

/// Removes the entry of an expired record, if the table still points there; false if that
/// failed.
fn expire_line(borrows: &mut Borrows<'_>, segment: usize, line: &Line, now: Duration) -> bool {
    let location = borrows.log.segments.location(segment, line.offset);
    let Some(slot) = borrows.table.find(line.hash, location) else { return true };
    debug_assert_ne!(borrows.log.segments.address(location), Address::NONE);
    if borrows.table.candidates(line.hash).len() > 1 {
        // Only a load shows which of the keys with this hash has expired.
        return true;
    }
    borrows.recent.forget_known();
    if kill_slot(borrows.log, borrows.table, line.hash, slot, now).is_err() {
        return false;
    }
    borrows.ledger.stats.expirations += 1;
    let key = borrows.memory.key_where(line.hash, |key| borrows.hasher.hash(key) == line.hash);
    if let Some(key) = key.map(Box::<[u8]>::from) {
        borrows.memory.remove(line.hash, &*key);
        borrows.recent.forget(borrows.log, line.hash, &key);
        borrows.staging.restage(&key, None, borrows.table);
    }
    borrows.recent.forget_location(location);
    borrows.staging.record_gone(location);
    true
}
