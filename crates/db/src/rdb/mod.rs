//! RDB: the file in which Redis stores a snapshot of its data, as far as `db` has the same types.
//!
//! [`Writer`] makes one that Redis from 5.0 on and Valkey load. [`Reader`] reads the versions 5 to
//! 12, of Redis 2.6 to 8. Strings may be compressed or stored as numbers. A value of another type
//! is refused by name, with its key: a part of a snapshot is not what its user asked for.
//!
//! Neither opens a file: both take and give bytes. [`shards`] exports all entries of a database
//! that no process serves, and imports them. A reader allocates nothing by a length that a file
//! states: a string is taken when it is there.

mod checksum;
mod compression;
mod reader;
pub mod shards;
#[cfg(test)]
mod tests;
mod writer;

use std::time::Duration;

pub use reader::{Element, Error, Limits, Reader};
pub use writer::Writer;

/// Version that is written: all later ones have the same strings.
const VERSION_WRITTEN: u32 = 9;
/// Versions that are read: from 5 on there is a checksum.
const VERSIONS: std::ops::RangeInclusive<u32> = 5..=12;
const MAGIC: &[u8; 5] = b"REDIS";

/// One key of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of its database.
    pub database: u8,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// When it expires, since the Unix epoch.
    pub expires_at: Option<Duration>,
}

/// What a byte begins if it is not the type of a value.
mod opcode {
    pub(super) const SLOT: u8 = 244;
    pub(super) const FUNCTION: u8 = 245;
    pub(super) const FUNCTION_EARLY: u8 = 246;
    pub(super) const MODULE: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const INFORMATION: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const EXPIRES_MS: u8 = 252;
    pub(super) const EXPIRES_S: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// The type of a string's value.
const STRING: u8 = 0;
