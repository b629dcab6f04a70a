//! memcached's protocols, as far as a cache on the way needs them: `docs/protocols/memcached.md`.
//!
//! Of packets, each seen alone: [`frame`] is the header of UDP datagrams, [`item`] the meta get a
//! cache asks with and the texts it answers with, [`command`] what a packet of a client's may write.
//!
//! Of connections: [`request`] cuts a client's stream, [`reply`] a server's, [`verb`] is what each
//! command is.

pub mod base64;
pub mod command;
pub mod frame;
pub mod item;
mod limits;
pub mod reply;
pub mod request;
#[cfg(test)]
mod tests;
pub mod verb;

pub use limits::Limits;
pub use request::Request;
pub use verb::Verb;

const PROTOCOL: &str = "memcached";

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 250;
