//! Records that are recovered together or not at all.
//!
//! Each record of a step except the last states that another one follows. They lie in one segment,
//! one after another, and go to the device together. If the log ends after such a record, it was
//! torn within the step, and recovery cuts it at the start of the step. The segment's room for all
//! of them is reserved before the first is appended.
//!
//! A step may also clear the store. Its earlier records are then dropped, because they are no
//! longer valid. Its later records go to the new segment without the segment's header, and the
//! header is written once they are durable: the segment is unused until its header exists, so its
//! records and the floor take effect at the same moment.

use super::{BLOCK_BYTES, LINE_BYTES, Log, Open, Who, spares};
use crate::blocks::Blocks;
use crate::elastic::Error;
use crate::elastic::record::{Address, Record};

/// Whether appended records belong together.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) is_open: bool,
    /// Offset, in the open segment, of the last record appended in this step.
    pub(super) last: Option<u64>,
    /// Length that a new segment needs to hold the reserved records.
    pub(super) need: u64,
}

/// Contents of the open segment at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    end: u64,
    count: usize,
    lines: usize,
    kills: u64,
    version_max: u64,
}

impl Mark {
    /// The mark of a segment that has only a header.
    pub(super) fn header() -> Self {
        Self { end: BLOCK_BYTES as u64, count: 0, lines: 0, kills: 0, version_max: 0 }
    }

    fn of(open: &Open) -> Self {
        let &Open { count, kills, version_max, .. } = open;
        Self { end: open.end(), count, lines: open.lines.len(), kills, version_max }
    }
}

impl Log {
    /// Reserves room in the open segment for a step of at most `records` records, of `bytes`
    /// together, and a spare if it `clears` the log. The reservation holds until something else is
    /// appended.
    ///
    /// # Errors
    /// [`Error::StepTooLong`]; when segments are needed and there are none.
    pub(in crate::elastic) fn reserve_step(
        &mut self,
        who: Who,
        records: usize,
        bytes: usize,
        clears: bool,
    ) -> Result<(), Error> {
        let (need, limit) = (spares::need(bytes, records * LINE_BYTES), self.segments.bytes_max());
        if need > limit {
            return Err(Error::StepTooLong { got: need, limit });
        }
        if records > 0 && !self.fits(bytes, records) {
            self.rotate(who, need)?;
            self.spares.note_need(need);
        }
        if clears && self.spares.first().is_none() {
            return Err(self.no_spare());
        }
        self.step.need = need;
        Ok(())
    }

    /// Begins a step: all records appended until its end belong together, up to the reserved bytes.
    pub(in crate::elastic) fn begin_step(&mut self) {
        self.step.is_open = true;
        if let Some(open) = &mut self.open {
            open.before = Mark::of(open);
        }
    }

    /// Ends the step with the last record appended.
    pub(in crate::elastic) fn end_step(&mut self) {
        self.end_records();
        self.step.is_open = false;
        self.step.need = 0;
    }

    /// Marks the last record of the step as its end.
    pub(super) fn end_records(&mut self) {
        if let (Some(offset), Some(open)) = (self.step.last.take(), &mut self.open) {
            let start = (offset - open.base) as usize;
            Record::end_step(Address::new(open.number, offset), &mut open.buffer[start..]);
        }
        self.release_header();
    }

    /// True if the open step cleared the log and thereby began the open segment.
    pub(super) fn has_step_cleared(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.header.is_some())
    }

    /// Removes what the open step has written to the open segment; nothing of it was sent to the
    /// device.
    pub(super) fn forget_step(&mut self) {
        if !self.step.is_open {
            return;
        }
        self.step.last = None;
        if let Some(open) = &mut self.open {
            let Mark { end, count, lines, kills, version_max } = open.before;
            open.buffer.truncate((end - open.base) as usize);
            open.lines.truncate(lines);
            (open.count, open.kills, open.version_max) = (count, kills, version_max);
        }
    }

    /// Holds back the header of the segment with which the open step clears the log.
    pub(super) fn hold_header(&mut self) {
        let Some(open) = self.open.as_mut().filter(|_| self.step.is_open) else { return };
        open.note_blocks(BLOCK_BYTES);
        open.header = Some(Blocks::from(&open.buffer[..]));
        open.buffer.clear();
        open.base = BLOCK_BYTES as u64;
    }

    /// Writes a header that was held back, once all records of the step are durable and before any
    /// other write: a trailer contains the floor, too.
    fn release_header(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(header) = open.header.take() else { return };
        let (number, has_records) = (open.number, !open.buffer.is_empty());
        if has_records {
            let before = self.jobs.back().map_or(self.written, |job| job.position);
            self.cut_job();
            let records = self.jobs.back_mut().expect("it was just cut");
            // While there is no header, none of these records counts.
            (records.position, records.syncs) = (before, true);
        }
        self.push_job(number, 0, header, true);
    }
}
