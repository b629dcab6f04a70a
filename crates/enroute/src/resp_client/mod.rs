//! Sockets around [`wire::resp::Pipeline`]: every client of a RESP server in this crate is one of
//! two adapters.
//!
//! [`blocking`] sends commands from a thread that waits for the replies, [`asynchronous`] from
//! tasks.

pub(crate) mod asynchronous;
pub(crate) mod blocking;

/// Bytes for which a connection makes room before it reads.
const READ_BYTES: usize = 64 << 10;
