//! Records that are recovered together or not at all.
//!
//! All of a step but the last say that another follows. They lie in one segment, one behind the
//! other, and go to the device together; so a log that ends behind one of them was torn within the
//! step, and recovery cuts it where the step began. The segment's room for all of them is reserved
//! before the first is appended.

use super::{LINE_BYTES, Log, Who, spares};
use crate::elastic::Error;
use crate::elastic::record::{Address, Record};

/// Whether what is appended belongs together.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) is_open: bool,
    /// Where the last record appended in it lies in the open segment.
    pub(super) last: Option<u64>,
    /// What a new segment needs to hold what was reserved.
    pub(super) need: u64,
}

impl Log {
    /// Reserves room in the open segment for a step of at most `records`, of `bytes` together, and
    /// spares for clearing the log `clears` times. It is kept until something else is appended.
    ///
    /// # Errors
    /// [`Error::StepTooLong`]; when segments are needed and there are none.
    pub(in crate::elastic) fn reserve_step(
        &mut self,
        who: Who,
        records: usize,
        bytes: usize,
        clears: usize,
    ) -> Result<(), Error> {
        let (need, limit) = (spares::need(bytes, records * LINE_BYTES), self.segments.bytes_max());
        if need > limit {
            return Err(Error::StepTooLong { got: need, limit });
        }
        if records > 0 && !self.fits(bytes, records) {
            self.rotate(who, need)?;
            self.spares.note_need(need);
        }
        if self.spares.count() < clears {
            return Err(self.no_spare());
        }
        self.step.need = need;
        Ok(())
    }

    /// What is appended from now on is one step, no more than was reserved.
    pub(in crate::elastic) fn begin_step(&mut self) {
        self.step.is_open = true;
    }

    /// The step is over, the last record of it the last appended.
    pub(in crate::elastic) fn end_step(&mut self) {
        self.end_records();
        self.step.is_open = false;
        self.step.need = 0;
    }

    /// Nothing follows the last record of the step here.
    pub(super) fn end_records(&mut self) {
        if let (Some(offset), Some(open)) = (self.step.last.take(), &mut self.open) {
            let start = (offset - open.base) as usize;
            Record::end_step(Address::new(open.number, offset), &mut open.buffer[start..]);
        }
    }
}
