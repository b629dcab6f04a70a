//! Records that are recovered together or not at all.
//!
//! All of a step but the last say that another follows. They lie in one segment, one behind the
//! other, and go to the device together; so a log that ends behind one of them was torn within the
//! step, and recovery cuts it where the step began.

use super::{LINE_BYTES, Log, Who, spares};
use crate::elastic::record::{Address, Record};

/// Whether what is appended belongs together.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) is_open: bool,
    /// Where the last record appended in it lies in the open segment.
    pub(super) last: Option<u64>,
}

impl Log {
    /// What is appended from now on is one step, if it is no more than `records` of `bytes`
    /// together and a segment has room for that.
    pub(in crate::elastic) fn begin_step(&mut self, records: usize, bytes: usize) {
        self.step.is_open = true;
        let need = spares::need(bytes, records * LINE_BYTES);
        if records > 0
            && need <= self.segments.bytes_max()
            && !self.fits(bytes, records)
            // Without room the step lies in two segments, as far as it can be written at all.
            && self.rotate(Who::Remover, need).is_ok()
        {
            self.spares.note_need(need);
        }
    }

    /// The step is over, the last record of it the last appended.
    pub(in crate::elastic) fn end_step(&mut self) {
        self.end_records();
        self.step.is_open = false;
    }

    /// Nothing follows the last record of the step here.
    pub(super) fn end_records(&mut self) {
        if let (Some(offset), Some(open)) = (self.step.last.take(), &mut self.open) {
            let start = (offset - open.base) as usize;
            Record::end_step(Address::new(open.number, offset), &mut open.buffer[start..]);
        }
    }
}
