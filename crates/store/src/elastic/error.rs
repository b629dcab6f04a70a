//! Errors of the elastic store.

use crate::device::FileName;

/// Errors of the store: cause, place and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk has no room for another segment. Reads continue; writes do too once there is room.
    #[error(
        "disk full: no room for another segment of {segment_bytes} bytes; free space on the disk, or remove entries"
    )]
    Full {
        /// Requested space, in bytes.
        segment_bytes: u64,
    },
    /// Writes arrive faster than the device takes them; try again after the next completion.
    #[error(
        "{buffered_bytes} bytes of writes are waiting for the disk, which is the maximum; try again"
    )]
    Busy {
        /// Bytes waiting to be written.
        buffered_bytes: usize,
    },
    /// A group of writes that recovery applies completely or not at all may be longer than a
    /// segment.
    #[error(
        "a group of writes of up to {got} bytes: expected at most {limit} bytes, which fit into one segment; write \
         less at once"
    )]
    StepTooLong {
        /// Bytes that a segment would have to hold.
        got: u64,
        /// Bytes that a segment can hold.
        limit: u64,
    },
    /// Writing or syncing failed, so nothing written since is durable; only a restart shows what is
    /// on disk.
    #[error("{file}: {reason}; no further writes are accepted: check the disk, then restart")]
    WriteFailed {
        /// The file being written.
        file: FileName,
        /// The error of the system.
        reason: String,
    },
    /// Reading failed.
    #[error("{file} at offset {offset}: {reason}")]
    ReadFailed {
        /// The file being read.
        file: FileName,
        /// Offset, in bytes.
        offset: u64,
        /// The error of the system.
        reason: String,
    },
    /// The data read differ from the data written.
    #[error("{file} is damaged at offset {offset}: {found}; restore it from a backup")]
    Damaged {
        /// The damaged file.
        file: FileName,
        /// Offset, in bytes.
        offset: u64,
        /// The kind of damage.
        found: String,
    },
    /// Files that the manifest lists are not there.
    #[error(
        "{} missing: the manifest lists {}; restore what is missing, or start with \
         --accept-data-loss to continue without its entries",
        missing(files), if files.len() == 1 { "it" } else { "them" }
    )]
    Missing {
        /// Their names.
        files: Vec<FileName>,
    },
    /// The store is being closed.
    #[error("the store is closing: no further writes are accepted")]
    Closed,
    /// The key was not loaded before, or its ticket was released.
    #[error("the key is not loaded: call load first, in the same command")]
    NotLoaded,
    /// The storage table can grow no further.
    #[error("the storage table is full at {entries} entries; use more shards")]
    TableFull {
        /// Entries it holds.
        entries: u64,
    },
    /// The key is longer than `key_bytes_max`.
    #[error("key: expected at most {limit} bytes (key_bytes_max), got {got}")]
    KeyTooLong {
        /// Its length in bytes.
        got: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The value is longer than `value_bytes_max`.
    #[error("value: expected at most {limit} bytes (value_bytes_max), got {got}")]
    ValueTooLong {
        /// Its length in bytes.
        got: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The directory contains something else, or a format that this version does not support.
    #[error("{file}: {found}; expected {expected}")]
    Foreign {
        /// The file.
        file: FileName,
        /// The format found.
        found: String,
        /// The format that this version reads.
        expected: String,
    },
}

impl Error {
    /// Makes the error for a read at the start of `file` that failed.
    pub(super) fn read_failed(file: FileName) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::ReadFailed { file, offset: 0, reason: error.to_string() }
    }

    /// Makes the error for a write to `file` that failed.
    pub(super) fn write_failed(file: FileName) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::WriteFailed { file, reason: error.to_string() }
    }
}

/// Formats a list of missing files.
fn missing(files: &[FileName]) -> String {
    let names: Vec<String> = files.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = files.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more} {}", names.join(", "), if files.len() == 1 { "is" } else { "are" })
}

/// Missing files named in one error.
const NAMED_MAX: usize = 20;
