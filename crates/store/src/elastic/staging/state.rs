//! State of an entry that commands wait for.

use std::ops::Range;

use crate::elastic::Error;
use crate::elastic::record::{Address, Body, Expiry};
use crate::elastic::table::Location;

/// A body within the bytes that were read.
#[derive(Debug)]
pub(in crate::elastic) struct BodyBytes {
    bytes: Vec<u8>,
    range: Range<usize>,
}

impl BodyBytes {
    pub(super) fn new(bytes: Vec<u8>, range: Range<usize>) -> Self {
        Self { bytes, range }
    }

    pub(super) fn of(body: Body<'_>) -> Self {
        let bytes = body.bytes();
        Self { range: 0..bytes.len(), bytes }
    }

    pub(in crate::elastic) fn body(&self) -> Body<'_> {
        Body::read(&self.bytes[self.range.clone()])
    }
}

#[derive(Debug)]
pub(in crate::elastic) enum State {
    /// A record is being read; the records in `tried` were not those of the key.
    Reading { tried: Vec<Address> },
    /// The entry, and the location of its record.
    Body { bytes: BodyBytes, location: Location },
    /// The key of a record.
    Found { key: Box<[u8]>, over_at: Expiry },
    /// The entry does not exist; or the page is in memory.
    Absent,
    /// Reading failed. If the record of the key is permanently damaged, `location` is the record to
    /// replace.
    Failed { error: Error, location: Option<Location> },
}

impl State {
    pub(in crate::elastic) fn is_known(&self) -> bool {
        !matches!(self, Self::Reading { .. })
    }

    /// Bytes of memory held.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Body { bytes, .. } => bytes.bytes.len() + size_of::<super::Staged>(),
            Self::Found { key, .. } => key.len() + size_of::<super::Staged>(),
            _ => 0,
        }
    }
}
