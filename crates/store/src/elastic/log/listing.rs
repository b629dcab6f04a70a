//! Keeps the manifest correct while the store runs.
//!
//! A segment is listed before anything is written to it, and is removed from the list before its
//! file is removed. A file that is listed and missing was therefore lost, wherever the machine
//! stopped. A change is a write and a sync of one block, concurrent with those of the log: spares
//! are created and listed ahead of time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::commands::{Purpose, is_full};
use super::spares::{RETRY_AFTER, Spare};
use super::{FileName, Log, Operation};
use crate::blocks::Blocks;
use crate::elastic::manifest::Manifest;
use crate::elastic::since::Since;

/// Progress of writing a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    #[default]
    None,
    Writing,
    Written,
    Syncing,
}

#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Sequence number of the copy written last.
    sequence: u64,
    progress: Progress,
    /// Spares that were created and are not listed yet.
    made: Vec<Spare>,
    /// Number of them that the copy being written lists, and the slots that it no longer lists, in
    /// ascending order.
    listed: usize,
    dropped: Vec<usize>,
    /// Segments without valid contents whose files could not be removed.
    left: Vec<u64>,
    /// The copy being written marks the store as closed.
    closes: bool,
    closed: bool,
    /// Time at which the disk had no space for it.
    refused: Option<Since>,
    /// The bytes of the copy written last, kept for the next: a block of memory allocated between
    /// those of the log's writes would leave gaps into which none of them fits.
    blocks: Arc<Blocks>,
}

impl Listing {
    pub(super) fn refused(&self) -> Option<Since> {
        self.refused
    }

    pub(super) fn made_bytes(&self) -> u64 {
        self.made.iter().map(|spare| spare.bytes).sum()
    }
}

impl Log {
    /// Contents of the next manifest.
    pub(in crate::elastic) fn manifest(&self) -> Manifest {
        let closed = self.listing.closes;
        let dropped = &self.listing.dropped;
        let (mut segments, mut given_up) = (Vec::new(), self.listing.left.clone());
        for (slot, segment) in self.segments.iter() {
            let is_listed = !segment.is_unlisted && dropped.binary_search(&slot).is_err();
            let list = if is_listed { &mut segments } else { &mut given_up };
            list.push(segment.number);
        }
        if !closed {
            let spares = self.spares.iter().chain(&self.listing.made);
            segments.extend(spares.map(|spare| spare.number));
        }
        segments.sort_unstable();
        given_up.sort_unstable();
        let (sequence, next) = (self.listing.sequence + 1, self.spares.next_number());
        Manifest { sequence, next, closed, segments, given_up }
    }

    /// Adds segments whose contents are no longer needed but whose files still exist.
    pub(in crate::elastic) fn leave(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.listing.left.extend(numbers);
    }

    /// Notes that their files were removed.
    pub(in crate::elastic) fn forget_left(&mut self) {
        self.listing.left.clear();
    }

    /// The copies written so far, up to this one, were written at the start.
    pub(in crate::elastic) fn pass_manifest(&mut self, sequence: u64) {
        self.listing.sequence = sequence;
    }

    /// True once the manifest says that the store is closed.
    pub(in crate::elastic) fn is_closed(&self) -> bool {
        self.listing.closed
    }

    pub(super) fn poll_listing(&mut self, now: Duration) -> Option<(FileName, Operation, Purpose)> {
        match self.listing.progress {
            Progress::None => self.begin_listing(now),
            Progress::Written => {
                self.listing.progress = Progress::Syncing;
                let file = self.manifest_file();
                Some((file, Operation::Sync, Purpose::ListingSync))
            }
            Progress::Writing | Progress::Syncing => None,
        }
    }

    fn manifest_file(&self) -> FileName {
        Manifest { sequence: self.listing.sequence + 1, ..Manifest::default() }.file()
    }

    fn begin_listing(&mut self, now: Duration) -> Option<(FileName, Operation, Purpose)> {
        let closes = self.is_closing && self.is_at_rest();
        let is_due = !self.listing.made.is_empty() && !self.is_closing
            || closes
            || self.segments.droppable(self.durable).next().is_some();
        let rests = |since: Since| !since.is_over(RETRY_AFTER, now);
        if !is_due || self.listing.closed || self.listing.refused.is_some_and(rests) {
            return None;
        }
        self.listing.refused = None;
        self.listing.closes = closes;
        self.listing.listed = self.listing.made.len();
        self.listing.dropped = self.segments.droppable(self.durable).collect();
        self.listing.dropped.sort_unstable();
        self.listing.dropped.sort_unstable();
        self.listing.progress = Progress::Writing;
        let manifest = self.manifest();
        if Arc::get_mut(&mut self.listing.blocks).is_none() {
            self.listing.blocks = Arc::default();
        }
        if let Some(blocks) = Arc::get_mut(&mut self.listing.blocks) {
            manifest.write(blocks);
        }
        let bytes = Arc::clone(&self.listing.blocks);
        Some((manifest.file(), Operation::Write { offset: 0, bytes }, Purpose::Listing))
    }

    /// A spare was made: it is used once it is listed.
    pub(super) fn list_spare(&mut self, spare: Spare) {
        self.listing.made.push(spare);
    }

    /// The end of a command of [`Log::poll_listing`].
    pub(super) fn listing_done(&mut self, purpose: Purpose, result: io::Result<()>, now: Duration) {
        match result {
            Ok(()) if purpose == Purpose::Listing => self.listing.progress = Progress::Written,
            Ok(()) => self.listed(),
            Err(error) => {
                self.listing.progress = Progress::None;
                if is_full(&error) {
                    self.listing.refused = Some(Since::new(now));
                } else {
                    self.fail(self.manifest_file(), &error);
                }
            }
        }
    }

    fn listed(&mut self) {
        self.listing.progress = Progress::None;
        self.listing.sequence += 1;
        for spare in self.listing.made.drain(..self.listing.listed) {
            self.spares.add(spare);
        }
        for slot in self.listing.dropped.drain(..) {
            self.segments.at_mut(slot).is_unlisted = true;
        }
        self.listing.closed = self.listing.closes;
    }
}
