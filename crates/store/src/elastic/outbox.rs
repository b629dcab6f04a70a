//! Commands for the device.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::log;
use super::log::Segments;
use super::staged_key::StagedKey;
use super::table::Slot;
use crate::device::{CommandId, DeviceCommand, FileName, Operation};

/// Purpose of a command.
#[derive(Debug)]
pub(super) enum Purpose {
    Log(log::Purpose),
    /// A record, read for the commands that wait for it.
    Record {
        key: StagedKey,
        slot: Slot,
    },
    /// A page of the table of that epoch, read back.
    Page {
        page: u32,
        epoch: u64,
    },
    /// A page of the table of that epoch, written out.
    PageAway {
        page: u32,
        epoch: u64,
    },
    /// The read of lines of the segment being compacted, or of a run of its records.
    Compaction {
        slot: usize,
    },
    /// The read of lines of the segment that is searched for expired entries.
    Sweep {
        slot: usize,
    },
    /// A record read ahead.
    Warm {
        hash: u64,
        slot: Slot,
    },
}

/// Owns the commands that the device has not taken yet, in the order in which they were sent, and
/// the purpose of every command that has not completed.
///
/// Invariants: no two commands of a store have the same number; the purpose of a command is
/// returned once. A segment with a read in progress is not removed, so each read that is sent here
/// is counted in its segment.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    commands: VecDeque<DeviceCommand>,
    purposes: HashMap<CommandId, Purpose>,
    last_id: u64,
}

impl Outbox {
    /// Adds a command; `purpose` is returned when it has completed.
    pub(super) fn send(&mut self, file: FileName, operation: Operation, purpose: Purpose) {
        self.last_id += 1;
        let id = CommandId(self.last_id);
        self.purposes.insert(id, purpose);
        self.commands.push_back(DeviceCommand { id, file, operation });
    }

    /// Reads `bytes` at `offset` of the segment in `slot`. Call [`Segments::end_read`] when the
    /// read has completed.
    pub(super) fn read_segment(
        &mut self,
        segments: &mut Segments,
        slot: usize,
        (offset, bytes): (u64, usize),
        purpose: Purpose,
    ) {
        let file = FileName::Segment(segments.begin_read(slot));
        self.send(file, Operation::Read { offset, bytes }, purpose);
    }

    /// Reads a record. The same applies.
    pub(super) fn read_record(&mut self, segments: &mut Segments, record: Slot, purpose: Purpose) {
        let extent = segments.extent(record.location, record.class);
        self.read_segment(segments, segments.slot(record.location), extent, purpose);
    }

    /// The next command for the device.
    pub(super) fn next(&mut self) -> Option<DeviceCommand> {
        self.commands.pop_front()
    }

    /// Takes the purpose of a completed command.
    pub(super) fn purpose_of(&mut self, id: CommandId) -> Option<Purpose> {
        self.purposes.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_leave_in_order_and_the_purpose_of_each_is_returned_once() {
        let mut outbox = Outbox::default();
        for slot in 0..3 {
            outbox.send(FileName::Spill, Operation::Sync, Purpose::Sweep { slot });
        }
        let ids: Vec<_> = std::iter::from_fn(|| outbox.next()).map(|command| command.id).collect();
        for (slot, &id) in ids.iter().enumerate().rev() {
            let purpose = outbox.purpose_of(id);
            assert!(matches!(purpose, Some(Purpose::Sweep { slot: of }) if of == slot));
            assert!(outbox.purpose_of(id).is_none());
        }
        assert_eq!(ids.len(), 3);
    }
}
