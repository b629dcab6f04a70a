//! TCP as the reference simulator does it: one connection, both ends, no clock and no network.
//!
//! The client sends `bytes` and closes with them; the server acknowledges. Segments to send are
//! pushed to a list; an end sets its next wake-up in its `due` time.

mod connection;
mod control;
mod cubic;
mod dctcp;
mod ranges;
mod receiver;
mod rtt;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use connection::Connection;
use control::Control;
use receiver::Receiver;
use sender::Sender;

/// Bytes of data in a full segment.
pub(crate) const MSS: u32 = 1024;

/// Segments in the initial window.
const INITIAL_WINDOW: u32 = 10;

/// Bytes that a receiver accepts beyond the acknowledged ones; large enough never to be the limit.
const RECEIVE_WINDOW_BYTES: u32 = 50 << 20;

/// A SYN or SYN+ACK waits this long for its answer, doubling.
const SYN_TIMEOUT_NS: u64 = 1_000_000;

/// Maximum number of doublings: 2^18 ms are longer than a closed connection is remembered.
const SYN_DOUBLINGS_MAX: u32 = 18;

/// Minimum retransmission timeout.
const RTO_MIN_NS: u64 = 10_000_000;

/// Maximum retransmission timeout.
const RTO_MAX_NS: u64 = 60_000_000_000;

/// Attempts to send the same data, and the server's closing segment, again.
const RETRIES_MAX: u8 = 6;

/// Time for which a client remembers a closed connection: twice the maximum segment lifetime.
const TIME_WAIT_NS: u64 = 240_000_000_000;

/// An acknowledgment may wait this long for a second segment.
const DELAYED_ACK_NS: u64 = 200_000_000;

/// Never.
pub(crate) const NEVER: u64 = u64::MAX;

/// Parameters common to both ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// Duplicate acknowledgments before a fast retransmission.
    pub duplicates_max: u32,
    /// Nanoseconds per tick of the timestamps.
    pub clock_ns: u64,
    /// DCTCP instead of CUBIC.
    pub dctcp: bool,
}
