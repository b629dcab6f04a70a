//! The parts of memcached's protocols that a cache on the path needs:
//! `docs/protocols/memcached.md`.
//!
//! [`frame`] is the header of UDP datagrams, [`item`] the meta get that a cache sends and the
//! replies that it writes, [`command`] the keys that a client's packet may write.

pub mod command;
pub mod frame;
pub mod item;
#[cfg(test)]
mod tests;

const PROTOCOL: &str = "memcached";

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 250;
