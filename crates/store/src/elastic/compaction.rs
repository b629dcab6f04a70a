//! Compaction: reclaims the space of dead records while serving.
//!
//! When the files take some two fifths more than what is live, the segment with the least live data
//! for its length is emptied: its lines say which records there were, the table which are still
//! pointed to, and those are appended to the log again. A segment may only go once nothing in it
//! matters, and what it *kills* may matter: if a record that killed an older one vanished before
//! the older one's segment did, a restart would find the older one alive. So kills of records that
//! may still be on disk are carried on, sixteen bytes each, in a record of their own. The segment
//! is removed when all that is durable.
//!
//! All in bounded steps: one read of 256 KiB is under way at a time.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use super::lines::{LineReader, PORTION_BYTES};
use super::log::{Segment, Who};
use super::outbox::Purpose;
use super::paging::Missing;
use super::record::{Address, Kind, Record};
use super::segment::{Footer, Line, Trailer};
use super::since::Since;
use super::table::Slot;
use super::{Elastic, Error};
use crate::device::FileName;

/// Files may be this much more than live data, in hundredths, before a segment is emptied: the more
/// of it is dead then, the less is copied.
const SLACK: u64 = 40;
/// From this much on writers wait for compaction. What it moves takes room before what it empties
/// goes.
const SLACK_MAX: u64 = 46;
/// Of a small store a few segments are more than that, those among them that are spare: it may have
/// so many besides. Then most are dead before they are looked at.
const SLACK_SMALL: u64 = 15;
const SEGMENTS_SLACK: u64 = 9;
const SEGMENTS_SLACK_MAX: u64 = 11;
/// A segment is left alone with less than this dead, in thousandths; on a full disk, with less than
/// the second.
const DEAD_MIN: u64 = 50;
pub(super) const DEAD_MIN_FULL: u64 = 10;
/// On a full disk writers wait for the end of a compaction that wins this much of its segment, in
/// thousandths; if the best there is wins less, they are refused.
pub(super) const DEAD_AWAITED: u64 = 250;
/// Interval of checks for reclaimable space on a full disk.
const REST_FULL: Duration = Duration::from_millis(10);
/// Bytes read at once.
const RUN_BYTES: usize = PORTION_BYTES;
/// Dead bytes read along rather than making two reads.
const GAP_BYTES: u64 = 4 << 10;
/// Longest record read without asking whether it is alive.
const SHORT_BYTES: usize = 512;
/// Lines looked at in one step.
const LINES_PER_STEP: usize = 512;
/// How many lines ahead the table's page is fetched.
const LINES_AHEAD: usize = 8;
/// Kills carried in one record.
const KILLS_PER_RECORD: usize = 512;

/// A segment being emptied.
#[derive(Debug)]
pub(super) struct Compaction {
    slot: usize,
    reader: LineReader,
    /// How much of it was not alive at the beginning, in thousandths.
    dead: u64,
    /// Those read last.
    lines: Vec<Line>,
    /// The records `lines` were derived from, and where they begin; nothing if a footer has the
    /// lines.
    records: Option<(u64, Vec<u8>)>,
    /// The first line not looked at.
    next: usize,
    /// Places in `lines` of the records being read.
    run: Vec<usize>,
    /// Where what is being read begins.
    reading: Option<u64>,
    /// There was no room to append.
    stalled: bool,
    carried: Vec<(u64, Address)>,
}

impl Compaction {
    pub(super) fn bytes(&self) -> usize {
        let records = self.records.as_ref().map_or(0, |(_, records)| records.capacity());
        let records = records + 2 * RUN_BYTES;
        self.lines.len() * size_of::<Line>() + self.carried.capacity() * 16 + records
    }
}

impl Elastic {
    /// Are files of so many bytes more than is left alone?
    fn passes(&self, bytes: u64, hundredths: u64, segments: u64) -> bool {
        let live = self.log.segments.live();
        let small = live / 100 * SLACK_SMALL + segments * self.log.segment_bytes();
        bytes > live + small.max(live / 100 * hundredths)
    }

    pub(super) fn is_compaction_behind(&self) -> bool {
        (self.compaction.is_some() || self.log.segments.are_any_doomed())
            && !self.log.is_full()
            && self.passes(self.log.file_bytes(), SLACK_MAX, SEGMENTS_SLACK_MAX)
    }

    /// True if there is more than is left alone, besides what is about to go.
    fn has_slack(&self) -> bool {
        let bytes = self.log.file_bytes() - self.log.segments.doomed_bytes();
        self.passes(bytes, SLACK, SEGMENTS_SLACK)
    }

    /// Whether a full disk will soon have space reclaimed by compaction, if what it wins is at
    /// least this much of a segment, in thousandths?
    pub(super) fn is_room_near(&self, dead_min: u64) -> bool {
        if self.log.is_write_refused() || self.compaction_stuck == Some(self.log.churn()) {
            return false;
        }
        let begun = self.compaction.as_ref().map(|compaction| compaction.dead);
        self.log.segments.are_any_doomed()
            || begun.is_some_and(|dead| dead >= dead_min)
            || self.victim().is_some_and(|(dead, ..)| dead >= dead_min)
    }

    /// Begins, or goes on with, emptying a segment; true if it can go on at once.
    pub(super) fn compact_some(&mut self, now: Duration) -> bool {
        if self.log.is_closing() {
            return false;
        }
        if self.compaction.is_none() {
            self.begin_compaction(now);
        }
        if !self.log.has_room_to_move() {
            return false;
        }
        let has_spare = self.log.has_spare_to_move();
        // On a full disk it cannot end: another one may. What it has moved is moved.
        if self.log.is_full()
            && self.compaction.take_if(|begun| begun.stalled && begun.reading.is_none()).is_some()
        {
            self.compaction_stuck = Some(self.log.churn());
            self.compaction_rest = (self.log.churn(), Since::new(now));
        }
        let can = |compaction: &mut Compaction| {
            compaction.reading.is_none() && (has_spare || !compaction.stalled)
        };
        match self.compaction.take_if(can) {
            Some(compaction) => self.look_at_lines(compaction, now),
            None => false,
        }
    }

    fn begin_compaction(&mut self, now: Duration) {
        let is_full = self.log.is_full();
        let (until_churn, since) = self.compaction_rest;
        let rests =
            if is_full { !since.is_over(REST_FULL, now) } else { until_churn > self.log.churn() };
        if rests || !(is_full || self.has_slack()) {
            return;
        }
        let dead_min = if is_full { DEAD_MIN_FULL } else { DEAD_MIN };
        let Some((dead, slot, trailer)) = self.victim().filter(|(dead, ..)| *dead >= dead_min)
        else {
            let enough = self.log.segment_bytes() / 16;
            self.compaction_rest = (self.log.churn() + enough, Since::new(now));
            return;
        };
        if self.log.segments.at(slot).live == 0 {
            let older = self.log.segments.iter().filter(|(_, other)| other.number < trailer.number);
            match older.map(|(_, other)| other.doomed.is_some()).reduce(|a, b| a && b) {
                // Its kills count for nothing, so it need not be looked at.
                None => return self.give_up_segment(slot),
                // They will as soon as those are gone.
                Some(true) => return,
                Some(false) => {}
            }
        }
        self.compaction = Some(Compaction {
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

    /// The segment of which most is dead, in thousandths.
    fn victim(&self) -> Option<(u64, usize, Trailer)> {
        // On a full disk what is begun must end with the room there is, or it stays full.
        let can_end = |segment: &Segment| {
            let need = segment.live + segment.kill_bytes() + segment.bytes / 4;
            !self.log.is_full() || segment.live == 0 || need <= self.log.room_to_move()
        };
        self.log
            .segments
            .iter()
            .filter(|(slot, segment)| !segment.damaged && self.log.is_on_disk(*slot))
            .filter(|(_, segment)| can_end(segment))
            .filter_map(|(slot, segment)| {
                Some((self.log.segments.dead_share(segment), slot, segment.trailer?))
            })
            // Of those that are dead the oldest, as nothing older keeps its kills.
            .max_by_key(|(dead, _, trailer)| (*dead, Reverse(trailer.number)))
    }

    fn read_for_compaction(&mut self, mut compaction: Compaction, offset: u64, bytes: usize) {
        let slot = compaction.slot;
        let purpose = Purpose::Compaction { slot };
        self.outbox.read_segment(&mut self.log.segments, slot, (offset, bytes), purpose);
        compaction.reading = Some(offset);
        self.compaction = Some(compaction);
    }

    /// Looks for the next run of live records and moves it, or has it read first; true if it can go
    /// on at once.
    fn look_at_lines(&mut self, mut compaction: Compaction, now: Duration) -> bool {
        let lines = &compaction.lines;
        let until = lines.len().min(compaction.next + LINES_PER_STEP);
        while compaction.next < until {
            let line = lines[compaction.next];
            if let Some(ahead) = lines.get(compaction.next + LINES_AHEAD)
                && !is_short(ahead)
            {
                self.table.prefetch(ahead.hash);
            }
            let page = self.table.page_of(line.hash);
            if !self.table.is_resident(page) {
                if self.paging.missing(page).is_some_and(Missing::is_for_good) {
                    // Its live records are unknown: it stays until the table is rebuilt.
                    self.log.segments.at_mut(compaction.slot).damaged = true;
                    return true;
                }
                self.paging.ask_for_upkeep(page);
                break;
            }
            if self.is_to_be_read(compaction.slot, &line) {
                if !joins_run(lines, &compaction.run, &line) {
                    break;
                }
                compaction.run.push(compaction.next);
            }
            let carries = line.kills != Address::NONE
                && line.kills.segment() != compaction.reader.trailer().number
                && self.log.segments.has(line.kills.segment());
            if carries {
                compaction.carried.push((line.hash, line.kills));
            }
            compaction.next += 1;
        }
        let (at_end, looked) = (compaction.next == lines.len(), compaction.next == until);
        if let (Some(&first), Some(&last)) = (compaction.run.first(), compaction.run.last()) {
            let (offset, end) = (lines[first].offset, line_end(&lines[last]));
            let end = end.min(self.log.segments.at(compaction.slot).bytes);
            if let Some((base, records)) = compaction.records.take() {
                self.move_run(compaction, base, &records, now);
                if let Some(compaction) = &mut self.compaction {
                    compaction.records = Some((base, records));
                }
                return true;
            }
            self.read_for_compaction(compaction, offset, (end - offset) as usize);
            return false;
        }
        if !at_end {
            self.compaction = Some(compaction);
            return looked;
        }
        let Some((offset, bytes)) = compaction.reader.next() else {
            return self.finish_compaction(compaction, now);
        };
        (compaction.lines, compaction.records, compaction.next) = (Vec::new(), None, 0);
        self.read_for_compaction(compaction, offset, bytes);
        false
    }

    /// A short record is read whether it is alive or not: that costs less than asking the table,
    /// which is asked when the record is there.
    fn is_to_be_read(&mut self, segment: usize, line: &Line) -> bool {
        line.class.is_some()
            && self.log.segments.at(segment).live > 0
            && (is_short(line) || self.live_slot(segment, line).is_some())
    }

    fn live_slot(&mut self, segment: usize, line: &Line) -> Option<Slot> {
        line.class?;
        self.table.find(line.hash, self.log.segments.location(segment, line.offset))
    }

    /// Takes the completed read of the next lines, or of a run of records.
    pub(super) fn compaction_read(
        &mut self,
        slot: usize,
        result: io::Result<Vec<u8>>,
        now: Duration,
    ) {
        self.log.segments.end_read(slot);
        // The store may have been cleared in between.
        let Some(mut compaction) = self.compaction.take_if(|compaction| compaction.slot == slot)
        else {
            return;
        };
        let Some(offset) = compaction.reading.take() else { return };
        match result {
            Err(error) => {
                let file = FileName::Segment(compaction.reader.trailer().number);
                self.leave_damaged(
                    slot,
                    Error::ReadFailed { file, offset, reason: error.to_string() },
                );
            }
            Ok(bytes) if compaction.run.is_empty() => {
                match compaction.reader.take(&bytes, |key| self.origin.hasher.hash(key)) {
                    Ok(lines) => {
                        compaction.lines = lines;
                        let are_derived = compaction.reader.trailer().footer == Footer::Parity;
                        compaction.records = are_derived.then_some((offset, bytes));
                        self.compaction = Some(compaction);
                    }
                    Err(error) => self.leave_damaged(slot, error),
                }
            }
            Ok(bytes) => self.move_run(compaction, offset, &bytes, now),
        }
    }

    /// A segment with damage is not emptied: what is whole in it goes on being served.
    fn leave_damaged(&mut self, slot: usize, error: Error) {
        self.ledger.report(error);
        self.log.segments.at_mut(slot).damaged = true;
    }

    /// Moves the run, of which the records are among `bytes`, which begin at `base`.
    fn move_run(&mut self, mut compaction: Compaction, base: u64, bytes: &[u8], now: Duration) {
        let run = std::mem::take(&mut compaction.run);
        let lines = &compaction.lines;
        for (place, &at) in run.iter().enumerate() {
            let line = lines[at];
            if let Some(&ahead) = run.get(place + LINES_AHEAD) {
                self.table.prefetch(lines[ahead].hash);
            }
            let stays = |line: &Line| !self.table.is_resident(self.table.page_of(line.hash));
            if stays(&line) {
                compaction.next = at;
                break;
            }
            let Some(from) = self.live_slot(compaction.slot, &line) else { continue };
            let address = self.log.segments.address(from.location);
            let record = match Record::read(address, &bytes[(line.offset - base) as usize..]) {
                Ok(record) => Record { kills: address, kind: Kind::Put, ..record },
                Err(broken) => {
                    let file = FileName::Segment(address.segment());
                    let (offset, found) = (address.offset(), broken.to_string());
                    return self
                        .leave_damaged(compaction.slot, Error::Damaged { file, offset, found });
                }
            };
            let Ok((location, class)) = self.log.append(Who::Mover, line.hash, record, now) else {
                // No space: retry this record later.
                compaction.next = at;
                compaction.stalled = true;
                break;
            };
            compaction.stalled = false;
            self.ledger.stats.compacted_bytes += record.bytes() as u64;
            self.table.replace(line.hash, from.location, Slot { location, class });
            self.log.segments.kill(from.location, from.class);
            self.log.segments.revive(location, class);
            self.staging.record_moved(from.location, location);
        }
        self.compaction = Some(compaction);
    }

    /// Nothing is left but kills to carry; true if it has to be tried again.
    fn finish_compaction(&mut self, mut compaction: Compaction, now: Duration) -> bool {
        while !compaction.carried.is_empty() {
            let rest = compaction.carried.len().saturating_sub(KILLS_PER_RECORD);
            if self.append_kills(Who::Mover, &compaction.carried[rest..], now).is_err() {
                compaction.stalled = true;
                self.compaction = Some(compaction);
                return false;
            }
            compaction.carried.truncate(rest);
        }
        self.give_up_segment(compaction.slot);
        true
    }

    /// Has a segment removed once what replaces it is durable.
    fn give_up_segment(&mut self, slot: usize) {
        let position = self.log.want_durable();
        self.log.segments.doom(slot, position.0);
    }
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
