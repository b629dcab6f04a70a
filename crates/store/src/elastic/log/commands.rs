//! Device commands of the log, and handling of their completions.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use super::Log;
use super::spares::{RETRY_AFTER, Spare};
use crate::blocks::Blocks;
use crate::device::{FileName, Operation};
use crate::elastic::since::Since;
use crate::elastic::{Error, Sync};

/// Time after which bytes are written, however few wait.
const WRITE_AFTER: Duration = Duration::from_millis(50);
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// Purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::elastic) enum Purpose {
    Write,
    /// Makes the log durable up to a position, and its open segment up to an offset.
    Sync {
        number: u64,
        position: u64,
        offset: u64,
    },
    Create(Spare),
    /// A copy of the manifest.
    Listing,
    ListingSync,
    Remove {
        slot: usize,
    },
}

impl Log {
    /// The next command of the log, in the required order.
    pub(in crate::elastic) fn poll(
        &mut self,
        sync: Sync,
        now: Duration,
    ) -> Option<(FileName, Operation, Purpose)> {
        let space = self.poll_space(now);
        space.or_else(|| self.poll_write(sync, now))
    }

    fn poll_space(&mut self, now: Duration) -> Option<(FileName, Operation, Purpose)> {
        if let Some((slot, number)) = self.segments.removable() {
            return Some((FileName::Segment(number), Operation::Remove, Purpose::Remove { slot }));
        }
        if self.failed {
            return None;
        }
        if let Some(command) = self.poll_listing(now) {
            return Some(command);
        }
        if self.is_closing {
            return None;
        }
        let spare = self.spares.missing(self.segments.live(), self.segments.bytes_max(), now)?;
        let create = Operation::Create { bytes: spare.bytes };
        Some((FileName::Segment(spare.number), create, Purpose::Create(spare)))
    }

    fn poll_write(&mut self, sync: Sync, now: Duration) -> Option<(FileName, Operation, Purpose)> {
        if self.writing || self.syncing || self.failed {
            return None;
        }
        if let Some(number) = self.sync_first {
            return Some(self.sync_command(number, 0));
        }
        if self.jobs.is_empty() && self.is_write_due(sync, now) {
            self.cut_job();
        }
        if self.write_refused.is_some_and(|since| since.is_over(RETRY_AFTER, now)) {
            self.write_refused = None;
        }
        if let Some(job) = self.jobs.front().filter(|_| self.write_refused.is_none()) {
            self.writing = true;
            let write = Operation::Write { offset: job.base, bytes: Arc::clone(&job.bytes) };
            return Some((FileName::Segment(job.number), write, Purpose::Write));
        }
        if self.is_sync_due(sync, now) {
            let (number, offset) = self.written_last()?;
            self.synced = Since::new(now);
            return Some(self.sync_command(number, offset));
        }
        None
    }

    /// The segment written last, and the offset up to which it is written. While a write is
    /// refused, that is not the open segment: nothing is written to it before those in front.
    fn written_last(&self) -> Option<(u64, u64)> {
        let refused = self.jobs.front().map(|job| (job.number, job.base));
        refused.or_else(|| self.open.as_ref().map(|open| (open.number, open.written)))
    }

    fn sync_command(&mut self, number: u64, offset: u64) -> (FileName, Operation, Purpose) {
        self.syncing = true;
        let purpose = Purpose::Sync { number, position: self.written, offset };
        (FileName::Segment(number), Operation::Sync, purpose)
    }

    fn is_write_due(&self, sync: Sync, now: Duration) -> bool {
        let Some(since) = self.unwritten else { return false };
        sync == Sync::Always
            || self.flush_wanted > self.written
            || since.is_over(WRITE_AFTER, now)
            || self.open.as_ref().is_some_and(|open| open.buffer.len() >= self.write_bytes)
    }

    fn is_sync_due(&self, sync: Sync, now: Duration) -> bool {
        self.durable < self.written
            && (self.flush_wanted > self.durable
                || match sync {
                    Sync::Always => true,
                    Sync::EverySecond => self.synced.is_over(SYNC_AFTER, now),
                    Sync::Never => false,
                })
    }

    /// Latest time at which [`Log::poll`] has work to do, if no other event occurs.
    pub(in crate::elastic) fn timeout(&self, sync: Sync) -> Option<Duration> {
        let write = self.unwritten.map(|since| since.end(WRITE_AFTER));
        let late = self.durable < self.written && sync == Sync::EverySecond;
        let sync = late.then(|| self.synced.end(SYNC_AFTER));
        let refused = [self.spares.refused(), self.write_refused, self.listing.refused()];
        let again = refused.into_iter().flatten().map(|since| since.end(RETRY_AFTER));
        [write, sync].into_iter().flatten().chain(again).min()
    }

    /// Takes the result of a command of [`Log::poll`].
    pub(in crate::elastic) fn complete(
        &mut self,
        purpose: Purpose,
        result: io::Result<()>,
        now: Duration,
    ) {
        match purpose {
            Purpose::Write => self.wrote(result, now),
            Purpose::Sync { number, position, offset } => {
                self.syncing = false;
                match result {
                    Ok(()) => self.synced(number, position, offset),
                    Err(error) => self.fail(FileName::Segment(number), &error),
                }
            }
            Purpose::Create(spare) => {
                self.spares.created(result.is_ok().then_some(spare));
                match result {
                    Err(error) if is_full(&error) => self.spares.note_full(now),
                    Err(error) => self.fail(FileName::Segment(spare.number), &error),
                    Ok(()) => self.list_spare(spare),
                }
            }
            Purpose::Listing | Purpose::ListingSync => self.listing_done(purpose, result, now),
            Purpose::Remove { slot } => {
                // A file that cannot be removed only takes space; its contents do not count.
                if result.is_err() {
                    self.leave([self.segments.at(slot).number]);
                }
                let bytes = self.segments.removed(slot);
                self.spares.note_room(bytes);
                self.write_refused = None;
            }
        }
    }

    fn wrote(&mut self, result: io::Result<()>, now: Duration) {
        self.writing = false;
        match result {
            Ok(()) => {
                let job = self.jobs.pop_front().expect("it was being written");
                self.written = job.position;
                self.keep_buffer(job.bytes);
                if job.syncs {
                    self.sync_first = Some(job.number);
                }
            }
            // Space is allocated for everything except bytes beyond the end of the file.
            Err(error) if is_full(&error) => self.write_refused = Some(Since::new(now)),
            Err(error) => {
                let number = self.jobs.front().map_or(0, |job| job.number);
                self.fail(FileName::Segment(number), &error);
            }
        }
    }

    fn keep_buffer(&mut self, bytes: Arc<Blocks>) {
        // The writer may still hold the buffer. That of a trailer is not reused.
        if let Ok(mut bytes) = Arc::try_unwrap(bytes)
            && (self.unused.0.capacity()..=4 * self.write_bytes).contains(&bytes.capacity())
        {
            bytes.clear();
            self.unused.0 = bytes;
        }
    }

    fn synced(&mut self, number: u64, position: u64, offset: u64) {
        self.durable = self.durable.max(position);
        if self.sync_first == Some(number) {
            self.sync_first = None;
        } else if let Some(open) = self.open.as_mut().filter(|open| open.number == number) {
            open.durable = offset;
        }
    }

    pub(super) fn fail(&mut self, file: FileName, error: &io::Error) {
        if !std::mem::replace(&mut self.failed, true) {
            self.refusal = Some(Error::WriteFailed { file, reason: error.to_string() });
        }
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
