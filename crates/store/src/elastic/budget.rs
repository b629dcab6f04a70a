//! Divides one memory budget, which may change at any moment, among the parts of the store.
//!
//! The log, the device and waiting commands get what they need first. The storage table may use
//! half of the rest and writes out pages above that; values get the remainder. Memory is released
//! in bounded steps.

use std::time::Duration;

use super::log::BUFFERED_BYTES_MIN;
use super::{Elastic, Stats};
use crate::mapping::PAGE_BYTES;
use crate::memory::Memory;

/// Number of items of the memory table that one step processes.
const MEMORY_WORK: usize = 32;
/// Minimum number of pages that the table keeps, regardless of the budget.
const PAGES_MIN: usize = 16;

impl Elastic {
    /// Minimum budget; a smaller one counts as this.
    pub const MEMORY_BYTES_MIN: usize =
        BUFFERED_BYTES_MIN + Memory::BASE_BYTES + PAGES_MIN * PAGE_BYTES + (1 << 20);

    /// Sets the memory budget, in bytes. An increase takes effect at once; a reduction is reached
    /// by [`Elastic::step`] in bounded portions.
    pub fn rescale(&mut self, memory_bytes: usize) {
        let grows = memory_bytes > self.config.memory_bytes;
        self.config.memory_bytes = memory_bytes;
        self.share_out();
        if grows {
            self.upkeep.warmer.begin(self.config.warming);
        }
    }

    /// The memory budget that was set last, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.config.memory_bytes
    }

    /// Does a bounded portion of maintenance (well under a millisecond); returns true if more
    /// remains.
    pub fn step(&mut self, now: Duration) -> bool {
        self.recent.settle(&self.log, &mut self.memory);
        self.usage.age(now);
        self.share_out();
        let retiring = self.paging.release_some();
        let shrinking = self.memory.step(MEMORY_WORK, now);
        let (compacting, sweeping) = self.compact_and_sweep(now);
        let warming = self.warm_some(now);
        let leaving = self.turn_pages(now);
        retiring || shrinking || compacting || sweeping || warming || leaving
    }

    /// Bytes needed regardless of what is cached: buffers, data that commands wait for, and memory
    /// being returned to the system.
    pub(super) fn bytes_needed(&self) -> usize {
        self.log.bytes_needed() + Memory::BASE_BYTES + self.bytes_used()
    }

    /// The part of [`Elastic::bytes_needed`] that is in use while it is counted.
    fn bytes_used(&self) -> usize {
        self.staging.bytes() + self.upkeep.bytes() + self.paging.bytes() + self.usage.bytes()
    }

    /// Bytes that are certainly in use now. Memory that is only reserved for buffers does not
    /// count, because it is not resident when the process is measured.
    pub fn bytes_held(&self) -> usize {
        let memory = self.memory.stats().accounted_bytes;
        self.log.bytes() + self.bytes_used() + self.table.bytes() + memory
    }

    fn bytes_to_share(&self) -> usize {
        let budget = self.config.memory_bytes.max(Self::MEMORY_BYTES_MIN);
        budget.saturating_sub(self.bytes_needed() + self.table.bytes_fixed())
    }

    /// Maximum number of pages the table may keep.
    pub(super) fn pages_max(&self) -> usize {
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
            ..self.ledger.stats.clone()
        }
    }
}
