//! Connections to RESP servers: sockets around [`wire::resp::Pipeline`].
//!
//! **What it is.** The two adapters that every client of a RESP server in this repository uses:
//! [`blocking`] sends commands from a thread that waits for the replies, [`asynchronous`] from
//! tasks.
//!
//! **What it is not.** No protocol (`wire` has it), no logins, no reconnection: who uses a
//! connection decides what a lost one means. Connections of the cache to its origins are
//! `enroute::runtime`'s.
//!
//! **Read first:** [`blocking`].
#![forbid(unsafe_code)]

pub mod asynchronous;
pub mod blocking;

/// Bytes for which a connection makes room before it reads.
const READ_BYTES: usize = 64 << 10;
