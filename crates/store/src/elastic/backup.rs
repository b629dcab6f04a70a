//! Backups of a store that keeps serving, and the way back.
//!
//! The owner calls [`Elastic::begin_backup`]: its point is that moment. It waits until
//! [`Elastic::is_copyable`], and then a thread of its own calls [`copy`], which reads the device of
//! the store directly. Segments that are sealed for good are linked where the file system allows
//! it, the others are copied up to the point. Compaction keeps the files until they are released.
//!
//! The list of all files, [`Contents`], is written last: without an intact list a directory is not
//! a backup. [`verify`] compares the files with it, and [`restore`] copies them.
//!
//! Format: docs/formats/elastic-store.md.

mod contents;
mod copying;
mod offline;

use std::collections::VecDeque;

use super::log::Pinned;
use super::manifest::Manifest;
use super::segment::Superblock;
use super::{Elastic, Error, Position};
use crate::device::FileName;
pub use contents::{Contents, File, Stored};
pub use copying::{Copied, Earlier, copy, restore, verify};
pub use offline::Findings;

/// The state of one store at the point of its backup.
#[derive(Debug)]
pub struct Point {
    position: Position,
    superblock: Superblock,
    /// Lists the segments of the backup.
    manifest: Manifest,
    /// Oldest first.
    segments: Vec<Pinned>,
}

/// Segments whose files stay until a backup has copied them, oldest first.
#[derive(Debug)]
pub struct Kept(VecDeque<u64>);

/// Why a backup, or the way back, ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A file of the store, or of the backup to be restored, cannot be read.
    #[error("cannot read {file} at offset {offset}: {reason}")]
    Unreadable {
        /// The file.
        file: FileName,
        /// Offset, in bytes.
        offset: u64,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// A file cannot be written where it is copied to.
    #[error("cannot write {file}: {reason}")]
    Unwritable {
        /// The file.
        file: FileName,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// What was read is not what the list states.
    #[error("{0}")]
    Damaged(Error),
    /// There is no intact list of files.
    #[error("{0}; a backup that was interrupted has no complete list: use another one")]
    Incomplete(String),
    /// The caller ended it.
    #[error("{0}")]
    Ended(String),
}

impl Elastic {
    /// Begins a backup of the store as it is now. Ends with [`Elastic::end_backup`].
    pub fn begin_backup(&mut self) -> (Point, Kept) {
        let position = self.flush();
        let manifest = self.log.manifest();
        let segments = self.log.pin();
        let numbers: Vec<u64> = segments.iter().map(|segment| segment.number).collect();
        let kept = Kept(numbers.iter().copied().collect());
        let manifest = Manifest {
            sequence: 1,
            next: manifest.next,
            closed: false,
            segments: numbers,
            given_up: Vec::new(),
        };
        let superblock = self.origin.superblock;
        (Point { position, superblock, manifest, segments }, kept)
    }

    /// Whether all of the point is on disk, so that it can be copied.
    ///
    /// # Errors
    /// It can no longer be copied: a write failed, the store is closing, or the disk is full and
    /// the backup keeps space that compaction would free.
    pub fn is_copyable(&self, point: &Point) -> Result<bool, Error> {
        if let Some(error) = self.log.refusal() {
            return Err(error.clone());
        }
        if self.log.is_write_refused()
            || (self.log.is_full() && self.log.segments.pinned_bytes() > 0)
        {
            return Err(Error::Full { segment_bytes: self.log.segment_bytes() });
        }
        Ok(self.log.is_copyable(point.position.0, &point.segments))
    }

    /// Releases all but the last `left` segments, which were not copied yet.
    pub fn release_segments(&mut self, kept: &mut Kept, left: usize) {
        while kept.0.len() > left {
            let Some(number) = kept.0.pop_front() else { break };
            self.log.unpin(number);
        }
    }

    /// Releases all segments, whether they were copied or not.
    pub fn end_backup(&mut self, mut kept: Kept) {
        self.release_segments(&mut kept, 0);
    }
}
