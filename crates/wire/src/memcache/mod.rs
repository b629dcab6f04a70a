//! The parts of memcached's protocols that a cache on the path needs:
//! `docs/protocols/memcached.md`.
//!
//! For packets, each read alone: [`frame`] is the header of UDP datagrams, [`item`] the meta get
//! that a cache sends and the replies that it writes, [`command`] the keys that a client's packet
//! may write.
//!
//! For connections: [`request`] cuts the stream of a client, [`reply`] that of a server; [`verb`]
//! has the properties of each command. [`ring`] chooses the server of a key among several.

pub mod base64;
pub mod command;
pub mod frame;
pub mod item;
mod limits;
pub mod reply;
pub mod request;
pub mod ring;
#[cfg(test)]
mod tests;
pub mod verb;

pub use limits::Limits;
pub use request::Request;
pub use ring::Ring;
pub use verb::Verb;

const PROTOCOL: &str = "memcached";

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 250;
