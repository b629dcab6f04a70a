//! Pages of the storage table between memory and the spill file.
//!
//! A page is read back only when another one is written out: commands wait until there is room, so
//! the pages in memory never exceed their share, however fast commands arrive. Not included in the
//! share are pages held by waiting commands, whose number is limited, and for a moment the pages
//! that writes have created.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use super::Error;
use super::outbox::{Outbox, Purpose};
use super::since::Since;
use super::staged_key::StagedKey;
use super::table::Table;
use crate::blocks::Blocks;
use crate::device::{FileName, Operation};
use crate::mapping::PAGE_BYTES;
use crate::retired::Retired;

/// Maximum number of pages being written out at once, and of pages written out in one turn.
const LEAVING_MAX: usize = 32;
/// Number of pages examined to find one that can be written out.
pub(super) const PATIENCE: usize = 64;
/// Number of pages beyond the share that writes may create before writers must wait.
const OVER_MAX: usize = 32;
/// Time for which a spill file is not used after a write or read of it has failed.
const SPILL_PAUSE: Duration = Duration::from_secs(1);

/// Owns the state of pages that are not in memory or are being moved, and the memory of tables that
/// were replaced.
///
/// Invariants: a page that is awaited is in `wanted`, being read or being written away; a command
/// sent for a former table changes nothing in this one.
#[derive(Default)]
pub(super) struct Paging {
    /// Incremented when the table is replaced, to distinguish commands sent for the old one.
    epoch: u64,
    /// Keys that wait for each page to be read back.
    awaited: HashMap<u32, Vec<StagedKey>>,
    /// The awaited pages for which no memory was free yet.
    wanted: VecDeque<u32>,
    /// Number of awaited pages that are being read.
    reading: usize,
    /// Pages being written to the spill file.
    leaving: HashMap<u32, Arc<Blocks>>,
    /// The table to which the pages in `leaving` belong was replaced; pages of the new table have
    /// the same places.
    is_stale: bool,
    /// Time at which the spill file was full, or failed.
    refused: Since,
    /// Pages that could not be read back.
    missing: HashMap<u32, Missing>,
    /// Memory of former tables that is being returned to the system.
    retired: Retired,
}

/// A page that could not be read from the spill file. It was reported, and is not requested
/// repeatedly.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) error: Error,
    /// Time of the last request, if the page is to be requested again.
    since: Option<Since>,
}

impl Missing {
    /// Whether the page is damaged; it then stays missing until the table is replaced.
    pub(super) fn is_for_good(&self) -> bool {
        self.since.is_none()
    }
}

/// Numbers of pages that one turn processed.
pub(super) struct Turn {
    /// Pages written out.
    pub(super) away: usize,
    /// Reads of pages sent.
    pub(super) reads: u64,
}

/// A page whose read has ended.
pub(super) struct Returned {
    /// The entries that waited for it.
    pub(super) waiters: Vec<StagedKey>,
    /// Whether it is in memory now.
    pub(super) result: Result<(), Error>,
}

impl Paging {
    /// Replaces the table by an empty one. The memory of the old one is returned in steps.
    pub(super) fn begin_table(&mut self, table: &mut Table) {
        let old = std::mem::replace(table, Table::new());
        self.epoch += 1;
        self.awaited.clear();
        self.wanted.clear();
        self.reading = 0;
        self.missing.clear();
        self.is_stale = !self.leaving.is_empty();
        let pages = old.pages_resident();
        for (index, (mapping, end)) in old.retire().into_iter().enumerate() {
            let resident = if index == 0 { pages * PAGE_BYTES } else { end };
            self.retired.add(mapping, end, resident);
        }
    }

    /// Returns a portion of the memory of former tables to the system; false if there was none.
    pub(super) fn release_some(&mut self) -> bool {
        self.retired.release_some()
    }

    /// Copies of pages, and memory of former tables.
    pub(super) fn bytes(&self) -> usize {
        // Memory that begins at a block boundary takes up to two blocks.
        (self.reading + 2 * self.leaving.len()) * PAGE_BYTES + self.retired.bytes()
    }

    /// Returns the failure of a page that could not be read back and is not to be requested again
    /// now.
    pub(super) fn missing(&self, page: u32) -> Option<&Missing> {
        self.missing.get(&page)
    }

    /// Requests that a page be read back; `waiter` resumes when it is in memory.
    ///
    /// # Errors
    /// Why the page cannot be read. Then `waiter` does not wait.
    pub(super) fn ask(&mut self, page: u32, waiter: StagedKey) -> Result<(), Error> {
        if let Some(missing) = self.missing(page) {
            return Err(missing.error.clone());
        }
        let waiters = self.awaited.entry(page).or_default();
        // A page that is still being written out is read back after that.
        if waiters.is_empty() && !self.leaving.contains_key(&page) {
            self.wanted.push_back(page);
        }
        // Maintenance requests it again in each step.
        if waiters.last() != Some(&waiter) {
            waiters.push(waiter);
        }
        Ok(())
    }

    /// Requests that a page be read back for upkeep, which checks again in its next step.
    pub(super) fn ask_for_upkeep(&mut self, page: u32) {
        // A page that could not be read is requested again later.
        let _ = self.ask(page, StagedKey::Page(page));
    }

    /// Writes out pages beyond the table's share of `max`, and pages that make room for awaited
    /// pages, and reads these.
    pub(super) fn turn(
        &mut self,
        table: &mut Table,
        outbox: &mut Outbox,
        max: usize,
        now: Duration,
    ) -> Turn {
        if !self.missing.is_empty() {
            let rests = |since: Since| !since.is_over(SPILL_PAUSE, now);
            self.missing.retain(|_, missing| missing.since.is_none_or(rests));
        }
        let epoch = self.epoch;
        let mut went = 0;
        while went < LEAVING_MAX && self.counted(table) + self.wanted.len() > max {
            // Pages that the spill file already has need not be written.
            let clean = self.leaving.len() == LEAVING_MAX
                || self.is_stale
                || !self.refused.is_over(SPILL_PAUSE, now);
            let Some((page, bytes)) = table.send_away(PATIENCE, clean) else { break };
            went += 1;
            if let Some(bytes) = bytes.map(Arc::new) {
                self.leaving.insert(page, bytes.clone());
                let write = Operation::Write { offset: offset_of(page), bytes };
                outbox.send(FileName::Spill, write, Purpose::PageAway { page, epoch });
            }
        }
        // While the share shrinks, one page is read for two that were written out.
        let mut room = max.saturating_sub(self.counted(table)).max(went / 2);
        if room == 0 && self.reading + self.leaving.len() == 0 {
            // If no page can be written out, for example because the spill file cannot be written,
            // lookups continue.
            room = 1;
        }
        let mut reads = 0;
        for _ in 0..room {
            let Some(page) = self.wanted.pop_front() else { break };
            self.reading += 1;
            reads += 1;
            let read = Operation::Read { offset: offset_of(page), bytes: PAGE_BYTES };
            outbox.send(FileName::Spill, read, Purpose::Page { page, epoch });
        }
        Turn { away: went, reads }
    }

    /// Number of pages that count in the share: in memory or being read, and not held by waiting
    /// commands. If held pages counted, a command that holds many would wait for its other pages
    /// one at a time.
    fn counted(&self, table: &Table) -> usize {
        (table.pages_resident() + self.reading).saturating_sub(table.pages_pinned())
    }

    /// True if pages are being written to the spill file.
    #[inline]
    pub(super) fn are_any_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether writers must wait, because writes have created too many pages beyond the share of
    /// `max`.
    pub(super) fn is_over(&self, table: &Table, max: usize) -> bool {
        self.counted(table) > max + OVER_MAX
    }

    /// A write to the spill file has completed. The page is put back if that failed, or if it is
    /// awaited.
    pub(super) fn left(
        &mut self,
        table: &mut Table,
        (page, epoch): (u32, u64),
        written: bool,
        now: Duration,
    ) -> Option<Returned> {
        let bytes = self.leaving.remove(&page)?;
        if !written {
            self.refused = Since::new(now);
        }
        if epoch != self.epoch {
            self.is_stale = !self.leaving.is_empty();
            return None;
        }
        let is_needed = !written || self.awaited.contains_key(&page);
        is_needed.then(|| self.returned(table, page, Ok(&bytes), !written, now))
    }

    /// Takes a page that was read back; a page of a former table is ignored.
    pub(super) fn read(
        &mut self,
        table: &mut Table,
        (page, epoch): (u32, u64),
        result: io::Result<Vec<u8>>,
        now: Duration,
    ) -> Option<Returned> {
        if epoch != self.epoch {
            return None;
        }
        self.reading -= 1;
        let bytes = result.map_err(|error| error.to_string());
        Some(self.returned(table, page, bytes.as_deref(), false, now))
    }

    fn returned(
        &mut self,
        table: &mut Table,
        page: u32,
        bytes: Result<&[u8], &String>,
        dirty: bool,
        now: Duration,
    ) -> Returned {
        let (file, offset) = (FileName::Spill, offset_of(page));
        let result = match bytes {
            Ok(bytes) if table.returned(page, bytes, dirty) => Ok(()),
            Ok(_) => {
                let found = "a page of the storage table with a wrong checksum".to_owned();
                Err(Error::Damaged { file, offset, found })
            }
            Err(reason) => Err(Error::ReadFailed { file, offset, reason: reason.clone() }),
        };
        if let Err(error) = &result {
            let is_passing = matches!(error, Error::ReadFailed { .. });
            let since = is_passing.then(|| Since::new(now));
            self.missing.insert(page, Missing { error: error.clone(), since });
        }
        Returned { waiters: self.awaited.remove(&page).unwrap_or_default(), result }
    }
}

fn offset_of(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

#[cfg(test)]
mod tests;
