//! Pages of the storage table between memory and the spill file.
//!
//! A page comes back in the place of one that leaves: what needs one waits until there is room for
//! it, so that those in memory are never more than their share, however fast commands ask. Beside
//! the share are only pages that waiting commands hold on to, of which there are as many as all
//! that wait may keep, and for an instant those that writing has made.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use super::outbox::Purpose;
use super::since::Since;
use super::staged::{StagedKey, State};
use super::{Elastic, Error};
use crate::blocks::Blocks;
use crate::device::{FileName, Operation};
use crate::mapping::PAGE_BYTES;

/// Pages written away at once at most, and sent away in one turn.
const LEAVING_MAX: usize = 32;
/// Pages looked at for one that can leave.
pub(super) const PATIENCE: usize = 64;
/// Pages that writing may have made beyond the share before it has to wait.
const OVER_MAX: usize = 32;
/// A spill file that took a page badly, or did not give one, is left alone for this time.
const SPILL_PAUSE: Duration = Duration::from_secs(1);

/// Pages on their way.
#[derive(Debug, Default)]
pub(super) struct Paging {
    /// What waits for each page that is to come back.
    awaited: HashMap<u32, Vec<StagedKey>>,
    /// Those of them for which no memory was free yet.
    wanted: VecDeque<u32>,
    /// Those of them being read.
    reading: usize,
    /// Pages being written to the spill file.
    leaving: HashMap<u32, Arc<Blocks>>,
    /// The table the pages leaving belong to is there no more: a new one's have the same places.
    is_stale: bool,
    /// Time at which the spill file was full, or failed.
    refused: Since,
    /// Pages that did not come back.
    missing: HashMap<u32, Missing>,
}

/// A page that the spill file did not give. It was reported, and is not asked for again and again.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) error: Error,
    /// When it was asked for, if it is to be asked for again.
    since: Option<Since>,
}

impl Missing {
    /// It is damaged: it stays so as long as the table is there.
    pub(super) fn is_for_good(&self) -> bool {
        self.since.is_none()
    }
}

impl Paging {
    /// The table is begun anew.
    pub(super) fn forget(&mut self) {
        self.awaited.clear();
        self.wanted.clear();
        self.reading = 0;
        self.missing.clear();
        self.is_stale = !self.leaving.is_empty();
    }

    /// Copies of pages.
    pub(super) fn bytes(&self) -> usize {
        // Memory that begins at a whole block takes up to two.
        (self.reading + 2 * self.leaving.len()) * PAGE_BYTES
    }
}

impl Elastic {
    /// What is known of a page that did not come back and is not to be asked for.
    pub(super) fn missing_page(&self, page: u32) -> Option<&Missing> {
        self.paging.missing.get(&page)
    }

    /// Has a page that is away brought back; `waiter` goes on then.
    pub(super) fn await_page(&mut self, page: u32, waiter: StagedKey) {
        if let Some(missing) = self.missing_page(page) {
            let error = missing.error.clone();
            return self.resolve(&waiter, State::Failed { error, location: None });
        }
        let waiters = self.paging.awaited.entry(page).or_default();
        // One that is still leaving comes back when it has left.
        if waiters.is_empty() && !self.paging.leaving.contains_key(&page) {
            self.paging.wanted.push_back(page);
        }
        // Upkeep asks again whenever it comes by.
        if waiters.last() != Some(&waiter) {
            waiters.push(waiter);
        }
    }

    /// Sends pages away that are beyond the table's share or in the place of those waited for, and
    /// has these read; true if some went.
    pub(super) fn turn_pages(&mut self, now: Duration) -> bool {
        if !self.paging.missing.is_empty() {
            let rests = |since: Since| !since.is_over(SPILL_PAUSE, now);
            self.paging.missing.retain(|_, missing| missing.since.is_none_or(rests));
        }
        let max = self.pages_max();
        let mut went = 0;
        while went < LEAVING_MAX && self.pages_counted() + self.paging.wanted.len() > max {
            // What the spill file has needs no writing.
            let clean = self.paging.leaving.len() == LEAVING_MAX
                || self.paging.is_stale
                || !self.paging.refused.is_over(SPILL_PAUSE, now);
            let Some((page, bytes)) = self.table.send_away(PATIENCE, clean) else { break };
            went += 1;
            if let Some(bytes) = bytes.map(Arc::new) {
                self.paging.leaving.insert(page, bytes.clone());
                let write = Operation::Write { offset: offset_of(page), bytes };
                let purpose = Purpose::PageAway { page, epoch: self.table_epoch };
                self.outbox.send(FileName::Spill, write, purpose);
            }
        }
        // While the share shrinks, one comes back for two that went.
        let mut room = max.saturating_sub(self.pages_counted()).max(went / 2);
        if room == 0 && self.paging.reading + self.paging.leaving.len() == 0 {
            // None can leave, as while the spill file takes none: lookups go on.
            room = 1;
        }
        for _ in 0..room {
            let Some(page) = self.paging.wanted.pop_front() else { break };
            self.paging.reading += 1;
            self.ledger.stats.page_reads += 1;
            let read = Operation::Read { offset: offset_of(page), bytes: PAGE_BYTES };
            self.outbox.send(
                FileName::Spill,
                read,
                Purpose::Page { page, epoch: self.table_epoch },
            );
        }
        went > 0
    }

    /// Pages that the share is of: in memory or being read, and not held by waiting commands. If
    /// those held counted, a command that holds as many would wait for its others one at a time.
    fn pages_counted(&self) -> usize {
        (self.table.pages_resident() + self.paging.reading)
            .saturating_sub(self.table.pages_pinned())
    }

    /// True if writing makes pages faster than they leave.
    pub(super) fn are_pages_behind(&self) -> bool {
        !self.paging.leaving.is_empty() && self.pages_counted() > self.pages_max() + OVER_MAX
    }

    /// The spill file has a page, or failed to take it.
    pub(super) fn page_left(&mut self, page: u32, epoch: u64, written: bool, now: Duration) {
        let Some(bytes) = self.paging.leaving.remove(&page) else { return };
        if !written {
            self.paging.refused = Since::new(now);
        }
        if epoch != self.table_epoch {
            self.paging.is_stale = !self.paging.leaving.is_empty();
        } else if !written || self.paging.awaited.contains_key(&page) {
            self.page_returned(page, Ok(&bytes), !written, now);
        }
    }

    /// Takes a page read back.
    pub(super) fn page_read(&mut self, page: u32, result: io::Result<Vec<u8>>, now: Duration) {
        self.paging.reading -= 1;
        let bytes = result.map_err(|error| error.to_string());
        self.page_returned(page, bytes.as_deref(), false, now);
    }

    fn page_returned(
        &mut self,
        page: u32,
        bytes: Result<&[u8], &String>,
        dirty: bool,
        now: Duration,
    ) {
        let (file, offset) = (FileName::Spill, offset_of(page));
        let taken = match bytes {
            Ok(bytes) if self.table.returned(page, bytes, dirty) => Ok(()),
            Ok(_) => {
                let found = "a page of the storage table with a wrong checksum".to_owned();
                Err(Error::Damaged { file, offset, found })
            }
            Err(reason) => Err(Error::ReadFailed { file, offset, reason: reason.clone() }),
        };
        if let Err(error) = &taken {
            self.ledger.report(error.clone());
            let is_passing = matches!(error, Error::ReadFailed { .. });
            let since = is_passing.then(|| Since::new(now));
            self.paging.missing.insert(page, Missing { error: error.clone(), since });
        }
        for waiter in self.paging.awaited.remove(&page).unwrap_or_default() {
            match &taken {
                Ok(()) => self.advance(&waiter),
                Err(error) => {
                    let error = error.clone();
                    self.resolve(&waiter, State::Failed { error, location: None });
                }
            }
        }
    }
}

fn offset_of(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}
