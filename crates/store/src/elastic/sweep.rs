//! Finding expired entries that are not looked up.
//!
//! Every segment knows when its first entry expires, and its lines say which entries those are; so
//! what is over is removed without reading a record that is not short. Entries expire to the second
//! here; a load counts in milliseconds.

use std::io;
use std::time::Duration;

use super::lines::LineReader;
use super::outbox::Purpose;
use super::record::Address;
use super::segment::Line;
use super::{Elastic, Error};
use crate::device::FileName;

/// Lines looked at in one step.
const LINES_PER_STEP: usize = 512;
/// A segment is looked through again after this time at the earliest, in seconds.
const REST_S: u32 = 1;

/// A segment being looked through.
#[derive(Debug)]
pub(super) struct Sweep {
    slot: usize,
    number: u64,
    /// Nothing if the segment was open when it was begun.
    reader: Option<LineReader>,
    /// Those read last; nothing while they are read.
    lines: Option<Vec<Line>>,
    next: usize,
    /// When the first entry left here expires, in seconds.
    expires_s: u32,
}

impl Sweep {
    pub(super) fn bytes(&self) -> usize {
        self.lines.as_ref().map_or(0, |lines| lines.capacity() * size_of::<Line>())
    }
}

fn seconds(now: Duration) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX - 1)
}

impl Elastic {
    pub(super) fn sweep_timeout(&self) -> Option<Duration> {
        let due = self.log.segments.expires_s();
        (due != u32::MAX && self.sweep.is_none()).then(|| Duration::from_secs(due.into()))
    }

    /// Begins, or goes on with, a sweep; true if it can go on at once.
    pub(super) fn sweep_some(&mut self, now: Duration) -> bool {
        if self.log.is_closing() {
            return false;
        }
        if self.sweep.is_none() && self.log.segments.expires_s() <= seconds(now) {
            self.begin_sweep(now);
        }
        match self.sweep.take_if(|sweep| sweep.lines.is_some()) {
            Some(sweep) => self.look_for_expired(sweep, now),
            None => false,
        }
    }

    fn begin_sweep(&mut self, now: Duration) {
        let Some(slot) = self.log.due_segment(seconds(now)) else { return };
        // What is appended from here on counts anew.
        self.log.segments.at_mut(slot).expires_s = u32::MAX;
        let open = self.log.open_lines().filter(|(open, _)| *open == slot);
        let lines = open.map(|(_, lines)| lines.to_vec());
        let segment = self.log.segments.at(slot);
        let reader = segment.trailer.map(LineReader::new);
        if lines.is_none() && reader.is_none() {
            return;
        }
        let number = segment.number;
        // The first lines are none.
        let lines = Some(lines.unwrap_or_default());
        self.sweep = Some(Sweep { slot, number, reader, lines, next: 0, expires_s: u32::MAX });
    }

    /// Takes the completed read of the next lines.
    pub(super) fn sweep_read(&mut self, slot: usize, result: io::Result<Vec<u8>>) {
        self.log.segments.end_read(slot);
        let Some(mut sweep) = self.sweep.take_if(|sweep| sweep.slot == slot) else { return };
        let Some(reader) = &mut sweep.reader else { return };
        let lines = match result {
            Ok(bytes) => reader.take(&bytes, |key| self.origin.hasher.hash(key)),
            Err(error) => {
                let file = FileName::Segment(sweep.number);
                let offset = reader.next().map_or(0, |(offset, _)| offset);
                Err(Error::ReadFailed { file, offset, reason: error.to_string() })
            }
        };
        match lines {
            Ok(lines) => {
                (sweep.lines, sweep.next) = (Some(lines), 0);
                self.sweep = Some(sweep);
            }
            Err(error) => {
                // What is left of its entries expires when it is asked for.
                self.ledger.report(error);
            }
        }
    }

    fn look_for_expired(&mut self, mut sweep: Sweep, now: Duration) -> bool {
        let now_s = seconds(now);
        // Compaction may have emptied it in between.
        if !self.log.segments.has(sweep.number) {
            return true;
        }
        let lines = sweep.lines.as_ref().expect("they were read");
        let until = lines.len().min(sweep.next + LINES_PER_STEP);
        while sweep.next < until {
            let line = lines[sweep.next];
            if line.class.is_some() && line.expires_s != u32::MAX {
                let page = self.table.page_of(line.hash);
                if let Some(missing) = self.paging.missing(page) {
                    if !missing.is_for_good() {
                        sweep.expires_s = sweep.expires_s.min(now_s + REST_S);
                    }
                    sweep.next += 1;
                    continue;
                }
                if !self.table.is_resident(page) {
                    self.paging.ask_for_upkeep(page);
                    self.sweep = Some(sweep);
                    return false;
                }
                if line.expires_s > now_s {
                    sweep.expires_s = sweep.expires_s.min(line.expires_s);
                } else if !self.expire_line(sweep.slot, &line, now) {
                    sweep.expires_s = sweep.expires_s.min(now_s + REST_S);
                }
            }
            sweep.next += 1;
        }
        if sweep.next < lines.len() {
            self.sweep = Some(sweep);
            return true;
        }
        if let Some((offset, bytes)) = sweep.reader.as_ref().and_then(LineReader::next) {
            sweep.lines = None;
            let (slot, purpose) = (sweep.slot, Purpose::Sweep { slot: sweep.slot });
            self.outbox.read_segment(&mut self.log.segments, slot, (offset, bytes), purpose);
            self.sweep = Some(sweep);
            return false;
        }
        let expires_s = if sweep.expires_s == u32::MAX {
            u32::MAX
        } else {
            sweep.expires_s.max(now_s + REST_S)
        };
        self.log.segments.note_expiry(sweep.slot, expires_s);
        true
    }

    /// Removes the entry of an expired record, if the table still points there; false if that
    /// failed.
    fn expire_line(&mut self, segment: usize, line: &Line, now: Duration) -> bool {
        let location = self.log.segments.location(segment, line.offset);
        let Some(slot) = self.table.find(line.hash, location) else { return true };
        debug_assert_ne!(self.log.segments.address(location), Address::NONE);
        if self.table.candidates(line.hash).len() > 1 {
            // Which of the keys of this hash is over, only a load can tell.
            return true;
        }
        if self.kill_slot(line.hash, slot, now).is_err() {
            return false;
        }
        self.ledger.stats.expirations += 1;
        let key = self.memory.key_where(line.hash, |key| self.origin.hasher.hash(key) == line.hash);
        if let Some(key) = key.map(Box::<[u8]>::from) {
            self.forget(line.hash, &key);
        }
        self.recent.forget_location(location);
        self.staging.record_gone(location);
        true
    }
}
