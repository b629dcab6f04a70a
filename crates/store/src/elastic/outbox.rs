//! Commands on their way to the device.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::log;
use super::log::Segments;
use super::staging::StagedKey;
use super::table::Slot;
use crate::device::{CommandId, DeviceCommand, FileName, Operation};

/// Why a command was sent.
#[derive(Debug)]
pub(super) enum Purpose {
    Log(log::Purpose),
    /// A record, read for a command that waits for it.
    Record {
        key: StagedKey,
        slot: Slot,
    },
    /// A page of the table of that epoch, read back.
    Page {
        page: u32,
        epoch: u64,
    },
    /// A page of the table of that epoch, written away.
    PageAway {
        page: u32,
        epoch: u64,
    },
    /// What tells lines of the segment being compacted, or a run of its records.
    Compaction {
        slot: usize,
    },
    /// What tells lines of the segment looked through for expired entries.
    Sweep {
        slot: usize,
    },
    /// A record read ahead.
    Warm {
        hash: u64,
        slot: Slot,
    },
}

/// Owns the commands that the device has not taken yet, in their order, and the purpose of every
/// command that has not ended.
///
/// It borrows the segments for a read, as a segment that is being read is not removed.
///
/// Invariants: no two commands of a store have the same number; a purpose is taken out once.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    commands: VecDeque<DeviceCommand>,
    purposes: HashMap<CommandId, Purpose>,
    last_id: u64,
}

impl Outbox {
    pub(super) fn send(&mut self, file: FileName, operation: Operation, purpose: Purpose) {
        self.last_id += 1;
        let id = CommandId(self.last_id);
        self.purposes.insert(id, purpose);
        self.commands.push_back(DeviceCommand { id, file, operation });
    }

    /// Has `bytes` at `offset` of the segment in `slot` read. [`Segments::end_read`] when that ends.
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

    /// Has the record of `record` read.
    pub(super) fn read_record(&mut self, segments: &mut Segments, record: Slot, purpose: Purpose) {
        let extent = segments.extent(record.location, record.class);
        self.read_segment(segments, segments.slot(record.location), extent, purpose);
    }

    /// The next command for the device.
    pub(super) fn next(&mut self) -> Option<DeviceCommand> {
        self.commands.pop_front()
    }

    /// Why the command that has ended was sent.
    pub(super) fn purpose_of(&mut self, id: CommandId) -> Option<Purpose> {
        self.purposes.remove(&id)
    }
}
