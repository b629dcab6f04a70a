//! Compaction: reclaims the space of dead records while serving.
//!
//! When the files exceed the live data by about two fifths, the segment with the least live data
//! for its length is emptied. Its lines list its records, the table shows which of them are live,
//! and these are appended to the log again. A segment also states which older records its records
//! *kill*. If it were removed before the segment of such an older record, a restart would find the
//! older record alive. Kills of records that may still be on disk are therefore repeated, 16 bytes
//! each, in records of kind `Kills`. The segment is removed when all of this is durable.
//!
//! Compaction works in bounded steps: at most one read of 256 KiB is in progress.

mod choosing;

use std::io;
use std::time::Duration;

use super::Error;
use super::key_hash::KeyHasher;
use super::ledger::Ledger;
use super::lines::{LineReader, PORTION_BYTES};
use super::log::{Log, Segment, Who};
use super::outbox::{Outbox, Purpose};
use super::paging::{Missing, Paging};
use super::pointing::point_to;
use super::record::{Address, Kind, Record};
use super::segment::{Footer, Line};
use super::since::Since;
use super::staging::Staging;
use super::table::{Slot, Table};
use crate::device::FileName;
use choosing::{has_slack, has_too_much_slack, victim};

/// A segment whose dead share is smaller than this, in thousandths, is not compacted; on a full
/// disk the second value applies.
const DEAD_MIN: u64 = 50;
pub(super) const DEAD_MIN_FULL: u64 = 10;
/// On a full disk, minimum dead share of the best segment, in thousandths, for which writers wait
/// for compaction; below it they are refused.
pub(super) const DEAD_AWAITED: u64 = 250;
/// Interval of checks for reclaimable space on a full disk.
const REST_FULL: Duration = Duration::from_millis(10);
/// Bytes read at once.
const RUN_BYTES: usize = PORTION_BYTES;
/// Maximum number of dead bytes between two live records that are read together.
const GAP_BYTES: u64 = 4 << 10;
/// Longest record that is read without checking whether it is alive.
const SHORT_BYTES: usize = 512;
/// Number of lines examined in one step.
const LINES_PER_STEP: usize = 512;
/// Distance in lines at which the table's page is prefetched.
const LINES_AHEAD: usize = 8;
/// Kills carried in one record.
const KILLS_PER_RECORD: usize = 512;

/// A segment being emptied.
#[derive(Debug)]
struct Compaction {
    slot: usize,
    reader: LineReader,
    /// Dead share of the segment at the start, in thousandths.
    dead: u64,
    /// The lines read last.
    lines: Vec<Line>,
    /// The records from which `lines` were derived, and their offset; `None` if a footer has the
    /// lines.
    records: Option<(u64, Vec<u8>)>,
    /// The first line that was not examined.
    next: usize,
    /// Places in `lines` of the records being read.
    run: Vec<usize>,
    /// Offset of the read under way.
    reading: Option<u64>,
    /// Appending failed for lack of room.
    stalled: bool,
    carried: Vec<(u64, Address)>,
}

impl Compaction {
    fn bytes(&self) -> usize {
        let records = self.records.as_ref().map_or(0, |(_, records)| records.capacity());
        let records = records + 2 * RUN_BYTES;
        self.lines.len() * size_of::<Line>() + self.carried.capacity() * 16 + records
    }
}

/// Owns the segment being emptied, and the time of the next search.
///
/// Invariants: at most one read is in progress; a segment is doomed only when everything in it that
/// is still needed has been appended again.
#[derive(Debug, Default)]
pub(super) struct Compactor {
    begun: Option<Compaction>,
    /// When nothing was worth compacting: the amount of changes after which to look again, and on a
    /// full disk the start of a pause before that.
    rest: (u64, Since),
    /// Amount of changes at which compaction ran out of space on a full disk.
    stuck: Option<u64>,
    /// Writers wait for compaction.
    is_behind: bool,
}

/// Other parts of the store that compaction uses.
pub(super) struct Borrows<'a> {
    pub(super) log: &'a mut Log,
    pub(super) table: &'a mut Table,
    /// Reads back pages of the table that are not in memory.
    pub(super) paging: &'a mut Paging,
    pub(super) outbox: &'a mut Outbox,
    /// Records the new locations of what moved.
    pub(super) staging: &'a mut Staging,
    pub(super) ledger: &'a mut Ledger,
    pub(super) hasher: &'a KeyHasher,
}

impl Compactor {
    /// True if writers must wait for compaction, according to the last call of
    /// [`Compactor::look_behind`].
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Determines whether writers have to wait. The result is kept, because it changes little
    /// between two commands to the device and every write needs it.
    pub(super) fn look_behind(&mut self, log: &Log) {
        self.is_behind = (self.begun.is_some() || log.segments.are_any_doomed())
            && !log.is_full()
            && has_too_much_slack(log);
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, Compaction::bytes)
    }

    /// Abandons the segment; records that were moved stay moved.
    pub(super) fn stop(&mut self) {
        self.begun = None;
    }

    /// Whether compaction will soon free space on a full disk, where it must free at least this
    /// share of a segment, in thousandths.
    pub(super) fn is_room_near(&self, log: &Log, dead_min: u64) -> bool {
        if log.is_write_refused() || self.stuck == Some(log.churn()) {
            return false;
        }
        let begun = self.begun.as_ref().map(|compaction| compaction.dead);
        log.segments.are_any_doomed()
            || begun.is_some_and(|dead| dead >= dead_min)
            || victim(log).is_some_and(|(dead, ..)| dead >= dead_min)
    }

    /// Begins or continues emptying a segment; returns true if it can continue at once.
    pub(super) fn step(&mut self, borrows: &mut Borrows<'_>, now: Duration) -> bool {
        if borrows.log.is_closing() {
            return false;
        }
        if self.begun.is_none() {
            self.begin(borrows.log, now);
        }
        if !borrows.log.has_room_to_move() {
            return false;
        }
        let has_spare = borrows.log.has_spare_to_move();
        // On a full disk this compaction cannot end, but another one may. The records moved so far
        // stay moved.
        if borrows.log.is_full()
            && self.begun.take_if(|begun| begun.stalled && begun.reading.is_none()).is_some()
        {
            self.stuck = Some(borrows.log.churn());
            self.rest = (borrows.log.churn(), Since::new(now));
        }
        let can = |compaction: &mut Compaction| {
            compaction.reading.is_none() && (has_spare || !compaction.stalled)
        };
        match self.begun.take_if(can) {
            Some(compaction) => self.look_at_lines(compaction, borrows, now),
            None => false,
        }
    }

    fn begin(&mut self, log: &mut Log, now: Duration) {
        let is_full = log.is_full();
        let (until_churn, since) = self.rest;
        let rests =
            if is_full { !since.is_over(REST_FULL, now) } else { until_churn > log.churn() };
        if rests || !(is_full || has_slack(log)) {
            return;
        }
        let dead_min = if is_full { DEAD_MIN_FULL } else { DEAD_MIN };
        let Some((dead, slot, trailer)) = victim(log).filter(|(dead, ..)| *dead >= dead_min) else {
            let enough = log.segment_bytes() / 16;
            self.rest = (log.churn() + enough, Since::new(now));
            return;
        };
        if log.segments.at(slot).live == 0 {
            let older = log.segments.iter().filter(|(_, other)| other.number < trailer.number);
            // One that is kept for a backup is not removed soon.
            let is_going = |other: &Segment| other.doomed.is_some() && other.pins == 0;
            match older.map(|(_, other)| is_going(other)).reduce(|a, b| a && b) {
                // Its kills are not needed, so it need not be read.
                None => return give_up_segment(log, slot),
                // Its kills no longer count once those segments are removed.
                Some(true) => return,
                Some(false) => {}
            }
        }
        self.begun = Some(Compaction {
            slot,
            reader: LineReader::new(trailer),
            dead,
            lines: Vec::new(),
            records: None,
            next: 0,
            run: Vec::new(),
            reading: None,
            stalled: false,
            carried: Vec::new(),
        });
    }

    fn read(
        &mut self,
        mut compaction: Compaction,
        extent: (u64, usize),
        borrows: &mut Borrows<'_>,
    ) {
        let slot = compaction.slot;
        let purpose = Purpose::Compaction { slot };
        borrows.outbox.read_segment(&mut borrows.log.segments, slot, extent, purpose);
        compaction.reading = Some(extent.0);
        self.begun = Some(compaction);
    }

    /// Finds the next run of live records and moves it, or requests it from the disk first; true if
    /// it can continue at once.
    fn look_at_lines(
        &mut self,
        mut compaction: Compaction,
        borrows: &mut Borrows<'_>,
        now: Duration,
    ) -> bool {
        let lines = &compaction.lines;
        let until = lines.len().min(compaction.next + LINES_PER_STEP);
        while compaction.next < until {
            let line = lines[compaction.next];
            if let Some(ahead) = lines.get(compaction.next + LINES_AHEAD)
                && !is_short(ahead)
            {
                borrows.table.prefetch(ahead.hash);
            }
            let page = borrows.table.page_of(line.hash);
            if !borrows.table.is_resident(page) {
                if borrows.paging.missing(page).is_some_and(Missing::is_for_good) {
                    // Its live records are unknown: it stays until the table is rebuilt.
                    borrows.log.segments.at_mut(compaction.slot).damaged = true;
                    return true;
                }
                borrows.paging.ask_for_upkeep(page);
                break;
            }
            if is_to_be_read(borrows, compaction.slot, &line) {
                if !joins_run(lines, &compaction.run, &line) {
                    break;
                }
                compaction.run.push(compaction.next);
            }
            let carries = line.kills != Address::NONE
                && line.kills.segment() != compaction.reader.trailer().number
                && borrows.log.segments.has(line.kills.segment());
            if carries {
                compaction.carried.push((line.hash, line.kills));
            }
            compaction.next += 1;
        }
        let (at_end, looked) = (compaction.next == lines.len(), compaction.next == until);
        if let (Some(&first), Some(&last)) = (compaction.run.first(), compaction.run.last()) {
            let (offset, end) = (lines[first].offset, line_end(&lines[last]));
            let end = end.min(borrows.log.segments.at(compaction.slot).bytes);
            if let Some((base, records)) = compaction.records.take() {
                self.move_run(compaction, (base, &records), borrows, now);
                if let Some(compaction) = &mut self.begun {
                    compaction.records = Some((base, records));
                }
                return true;
            }
            self.read(compaction, (offset, (end - offset) as usize), borrows);
            return false;
        }
        if !at_end {
            self.begun = Some(compaction);
            return looked;
        }
        let Some(extent) = compaction.reader.next() else {
            return self.finish(compaction, borrows.log, now);
        };
        (compaction.lines, compaction.records, compaction.next) = (Vec::new(), None, 0);
        self.read(compaction, extent, borrows);
        false
    }

    /// Takes the completed read of the next lines, or of a run of records.
    pub(super) fn read_ended(
        &mut self,
        slot: usize,
        result: io::Result<Vec<u8>>,
        borrows: &mut Borrows<'_>,
        now: Duration,
    ) {
        borrows.log.segments.end_read(slot);
        // The store may have been cleared in between.
        let Some(mut compaction) = self.begun.take_if(|compaction| compaction.slot == slot) else {
            return;
        };
        let Some(offset) = compaction.reading.take() else { return };
        match result {
            Err(error) => {
                let file = FileName::Segment(compaction.reader.trailer().number);
                leave_damaged(
                    borrows,
                    slot,
                    Error::ReadFailed { file, offset, reason: error.to_string() },
                );
            }
            Ok(bytes) if compaction.run.is_empty() => {
                match compaction.reader.take(&bytes, |key| borrows.hasher.hash(key)) {
                    Ok(lines) => {
                        compaction.lines = lines;
                        let are_derived = compaction.reader.trailer().footer == Footer::Parity;
                        compaction.records = are_derived.then_some((offset, bytes));
                        self.begun = Some(compaction);
                    }
                    Err(error) => leave_damaged(borrows, slot, error),
                }
            }
            Ok(bytes) => self.move_run(compaction, (offset, &bytes), borrows, now),
        }
    }

    /// Moves the records of the run, which are in `bytes`; `bytes` begins at offset `base`.
    fn move_run(
        &mut self,
        mut compaction: Compaction,
        (base, bytes): (u64, &[u8]),
        borrows: &mut Borrows<'_>,
        now: Duration,
    ) {
        let run = std::mem::take(&mut compaction.run);
        let lines = &compaction.lines;
        for (place, &at) in run.iter().enumerate() {
            let line = lines[at];
            if let Some(&ahead) = run.get(place + LINES_AHEAD) {
                borrows.table.prefetch(lines[ahead].hash);
            }
            let stays = |line: &Line| !borrows.table.is_resident(borrows.table.page_of(line.hash));
            if stays(&line) {
                compaction.next = at;
                break;
            }
            let Some(from) = live_slot(borrows, compaction.slot, &line) else { continue };
            let address = borrows.log.segments.address(from.location);
            let record = match Record::read(address, &bytes[(line.offset - base) as usize..]) {
                Ok(record) => Record { kills: address, kind: Kind::Put, ..record },
                Err(broken) => {
                    let file = FileName::Segment(address.segment());
                    let (offset, found) = (address.offset(), broken.to_string());
                    return leave_damaged(
                        borrows,
                        compaction.slot,
                        Error::Damaged { file, offset, found },
                    );
                }
            };
            let Ok((location, class)) = borrows.log.append(Who::Mover, line.hash, record, now)
            else {
                // No space: retry this record later.
                compaction.next = at;
                compaction.stalled = true;
                break;
            };
            compaction.stalled = false;
            borrows.ledger.stats.compacted_bytes += record.bytes() as u64;
            let to = Slot { location, class };
            point_to(borrows.log, borrows.table, line.hash, Some(from), to);
            borrows.staging.record_moved(from.location, location);
        }
        self.begun = Some(compaction);
    }

    /// Appends the remaining kills and gives the segment up; returns false if there was no room,
    /// and must then be called again.
    fn finish(&mut self, mut compaction: Compaction, log: &mut Log, now: Duration) -> bool {
        while !compaction.carried.is_empty() {
            let rest = compaction.carried.len().saturating_sub(KILLS_PER_RECORD);
            if log.append_kills(Who::Mover, &compaction.carried[rest..], now).is_err() {
                compaction.stalled = true;
                self.begun = Some(compaction);
                return false;
            }
            compaction.carried.truncate(rest);
        }
        give_up_segment(log, compaction.slot);
        true
    }
}

/// A short record is read whether it is alive or not: that costs less than a lookup in the table,
/// which follows when the record has been read.
fn is_to_be_read(borrows: &mut Borrows<'_>, segment: usize, line: &Line) -> bool {
    line.class.is_some()
        && borrows.log.segments.at(segment).live > 0
        && (is_short(line) || live_slot(borrows, segment, line).is_some())
}

fn live_slot(borrows: &mut Borrows<'_>, segment: usize, line: &Line) -> Option<Slot> {
    line.class?;
    borrows.table.find(line.hash, borrows.log.segments.location(segment, line.offset))
}

/// Keeps a damaged segment, whose undamaged entries are still served.
fn leave_damaged(borrows: &mut Borrows<'_>, slot: usize, error: Error) {
    borrows.ledger.report(error);
    borrows.log.segments.at_mut(slot).damaged = true;
}

/// Marks a segment for removal once its replacement is durable.
fn give_up_segment(log: &mut Log, slot: usize) {
    let position = log.want_durable();
    log.segments.doom(slot, position.0);
}

/// True if the record of `line` can be read together with those of `run`.
fn joins_run(lines: &[Line], run: &[usize], line: &Line) -> bool {
    let (Some(&first), Some(&last)) = (run.first(), run.last()) else { return true };
    line.offset <= line_end(&lines[last]) + GAP_BYTES
        && line_end(line) - lines[first].offset <= RUN_BYTES as u64
}

fn is_short(line: &Line) -> bool {
    line.class.is_some_and(|class| class.bytes() <= SHORT_BYTES)
}

fn line_end(line: &Line) -> u64 {
    line.offset + line.class.map_or(0, |class| class.bytes() as u64)
}
