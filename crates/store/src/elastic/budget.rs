//! One number for all memory, which may change at any moment.
//!
//! What the log, the device and waiting commands need comes first; the storage table may have half
//! of the rest, and leaves page by page what it does not get; values have what remains. Everything
//! is given up in bounded steps.

use std::time::Duration;

use super::device_work::Purpose;
use super::log::BUFFERED_BYTES_MIN;
use super::{Elastic, Stats};
use crate::device::{FileName, Operation};
use crate::mapping::PAGE_BYTES;
use crate::memory::Memory;

/// Items' worth of upkeep of the memory table in one step.
const MEMORY_WORK: usize = 32;
/// Table pages written away at once at most.
const PAGES_LEAVING_MAX: usize = 32;
/// Pages looked at for one that can leave.
const PATIENCE: usize = 64;
/// A spill file that took a page badly is left alone for this time.
const SPILL_PAUSE: Duration = Duration::from_secs(1);
/// The table keeps this many pages whatever the budget.
const PAGES_MIN: usize = 16;

impl Elastic {
    /// The least budget that can be kept: below it, this much is used.
    pub const MEMORY_BYTES_MIN: usize =
        BUFFERED_BYTES_MIN + Memory::BASE_BYTES + PAGES_MIN * PAGE_BYTES + (1 << 20);

    /// Sets the memory budget, in bytes. More counts at once; less is reached by
    /// [`Elastic::step`] in bounded portions.
    pub fn rescale(&mut self, memory_bytes: usize) {
        let grows = memory_bytes > self.config.memory_bytes;
        self.config.memory_bytes = memory_bytes;
        self.share_out();
        if grows {
            self.begin_warming();
        }
    }

    /// The memory budget asked for last, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.config.memory_bytes
    }

    /// Does a bounded portion of upkeep (well under a millisecond); true while there is more.
    pub fn step(&mut self, now: Duration) -> bool {
        self.settle();
        self.reuse.age(now);
        self.share_out();
        let retiring = self.retired.release_some();
        let shrinking = self.memory.step(MEMORY_WORK, now);
        let leaving = self.send_pages_away(now);
        let compacting = self.compact_some(now);
        let sweeping = self.sweep_some(now);
        let warming = self.warm_some();
        retiring || shrinking || leaving || compacting || sweeping || warming
    }

    /// Bytes needed whatever is cached: buffers, what commands wait for, and what is on its way
    /// back to the system.
    pub(super) fn bytes_needed(&self) -> usize {
        self.log.bytes_needed() + Memory::BASE_BYTES + self.bytes_used()
    }

    /// The part of [`Elastic::bytes_needed`] that is in use while it is counted.
    fn bytes_used(&self) -> usize {
        let compaction = self.compaction.as_ref().map_or(0, super::Compaction::bytes);
        let sweep = self.sweep.as_ref().map_or(0, super::Sweep::bytes);
        self.staged_bytes
            + compaction
            + sweep
            + self.retired.bytes()
            + self.uses.bytes()
            + self.reuse.bytes()
    }

    /// Bytes that are certainly held now. What is only kept free for its buffers is not counted, so
    /// that whoever measures the process does not take it for something that is there.
    pub fn bytes_held(&self) -> usize {
        let memory = self.memory.stats().accounted_bytes;
        self.log.bytes() + self.bytes_used() + self.table.bytes() + memory
    }

    fn bytes_to_share(&self) -> usize {
        let budget = self.config.memory_bytes.max(Self::MEMORY_BYTES_MIN);
        budget.saturating_sub(self.bytes_needed() + self.table.bytes_fixed())
    }

    /// Pages the table may keep.
    fn pages_max(&self) -> usize {
        (self.bytes_to_share() / 2 / PAGE_BYTES).max(PAGES_MIN)
    }

    fn share_out(&mut self) {
        self.log.fit(self.config.memory_bytes);
        let pages = self.table.pages_resident() * PAGE_BYTES;
        let values = self.bytes_to_share().saturating_sub(pages);
        if values != self.memory.config().bytes_max {
            self.memory.resize(usize::MAX, values);
        }
    }

    /// Has pages beyond the table's share written to the spill file; true if some could go at once.
    fn send_pages_away(&mut self, now: Duration) -> bool {
        let max = self.pages_max();
        if now < self.pages_stay_until {
            return false;
        }
        // Pages of a table begun anew have the places of the old one's.
        if self.pages_leaving > 0 && self.leaving_epoch != self.table_epoch {
            return false;
        }
        self.leaving_epoch = self.table_epoch;
        let mut went = false;
        for _ in 0..PAGES_LEAVING_MAX {
            if self.table.pages_resident().saturating_sub(self.pages_leaving) <= max
                || self.pages_leaving >= PAGES_LEAVING_MAX
            {
                break;
            }
            let Some(page) = self.table.victim(PATIENCE) else { break };
            went = true;
            if let Some(bytes) = self.table.leave(page) {
                self.pages_leaving += 1;
                let offset = u64::from(page) * PAGE_BYTES as u64;
                let write = Operation::Write { offset, bytes: bytes.into() };
                let purpose = Purpose::PageAway { page, epoch: self.table_epoch };
                self.command(FileName::Spill, write, purpose);
            }
        }
        went
    }

    /// The spill file has a page, or failed to take it.
    pub(super) fn page_left(&mut self, page: u32, epoch: u64, written: bool, now: Duration) {
        self.pages_leaving -= 1;
        if !written {
            self.pages_stay_until = now + SPILL_PAUSE;
        }
        if epoch == self.table_epoch {
            self.table.left(page, written);
        }
    }

    /// Sizes and counters.
    pub fn stats(&self) -> Stats {
        let memory = self.memory.stats();
        let table_bytes = self.table.bytes();
        Stats {
            entries: self.table.len(),
            entries_in_memory: memory.items as u64,
            memory_bytes_max: self.config.memory_bytes,
            memory_bytes: self.bytes_needed() + table_bytes + memory.accounted_bytes,
            table_bytes,
            table_pages: (self.table.pages_used(), self.table.pages_resident()),
            live_bytes: self.log.segments.live(),
            file_bytes: self.log.file_bytes(),
            ..self.stats.clone()
        }
    }
}
