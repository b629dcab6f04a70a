//! VNF-Cache: a cache on the path between a client and its key-value database.
//!
//! **What it is.** The paper's three modules. [`filter`] determines the flow of every message,
//! `manager` decides how to handle it, [`storage`] answers or stores. Besides these: [`lease`],
//! which ensures that nothing stale is stored, and [`session`], which is one client connection as a
//! state machine: bytes in, bytes out.
//!
//! **What it is not.** It opens no socket, reads no clock and starts no thread: tier 2 passes it
//! bytes and the time, and writes its output. So all of it can run under a simulated network from
//! one seed, as its tests do. [`fanout`] stands between a session and several memcached servers.
//!
//! **Read first:** [`session`], then [`lease`] and [`principal`].
#![forbid(unsafe_code)]

mod expected;
pub mod explain;
pub mod fanout;
pub mod feed;
pub mod filter;
mod input;
pub mod key;
pub mod lease;
pub mod live;
mod manager;
pub mod monitor;
mod output;
pub mod principal;
pub mod rules;
pub mod sentinel;
pub mod session;
pub mod stats;
pub mod storage;
pub mod topology;
mod variants;
pub mod watch;

pub use output::Output;
pub use session::Session;

/// The two sides of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The origin.
    Server,
}

/// Errors that end a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client broke its protocol or a limit.
    #[error("from the client: {0}")]
    Client(wire::Error),
    /// The client sent a write wider than keys where no reply confirms writes.
    #[error(
        "from the client: after SUBSCRIBE, MONITOR or SYNC, expected writes of single keys only, got a wider \
         one, whose reply cannot be recognized; send it over another connection"
    )]
    Stream,
    /// The origin broke its protocol or a limit.
    #[error("from the origin: {0}")]
    Server(wire::Error),
    /// The connection to one of several servers was lost while the reply to a write, or the rest of
    /// a reply, was due.
    #[error("a connection was lost while a reply was due: {0}")]
    LostServer(String),
    /// A reply that must be understood before the client sees it is too large for that.
    #[error(
        "from the origin: expected at most {limit} bytes (withheld_bytes_max) of a reply that is read before it \
         is forwarded, got {got}"
    )]
    Withheld {
        /// [`session::Config::withheld_bytes_max`].
        limit: usize,
        /// The part received.
        got: usize,
    },
}
