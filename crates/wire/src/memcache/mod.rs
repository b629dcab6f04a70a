//! memcached's protocols, as far as a cache on the way needs them: `docs/protocols/memcached.md`.
//!
//! [`frame`] is the header of UDP datagrams, [`item`] the meta get a cache asks with and the texts
//! it answers with, [`command`] what a packet of a client's may write.

pub mod command;
pub mod frame;
pub mod item;
#[cfg(test)]
mod tests;

const PROTOCOL: &str = "memcached";

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 250;
