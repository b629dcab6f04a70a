//! The share of memory for data in transit ([`platform::memory::transit`]).

use edge_tls::TlsStream;
use platform::memory::{self, CLIENTS_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::TcpStream;

use super::Limits;

/// The share is [`CLIENTS_BYTES`] plus this fraction of the memory for content.
const CONTENT_PART: usize = 4;
/// Memory of one connection besides the headers it is sending: TLS and HTTP state of an idle one.
const CONNECTION_BYTES: u64 = 32 << 10;

/// Buffers of an answer that passes through, between its origin's socket and its client's.
pub(super) const PASSING_BYTES: usize = 128 << 10;
/// Memory of a request without its headers and bodies: a task, and a stream of HTTP/2.
pub(super) const REQUEST_BYTES: usize = 8 << 10;

/// Limit of data in transit, with `memory` bytes of content.
pub(super) fn share(memory: usize) -> usize {
    CLIENTS_BYTES.saturating_add(memory / CONTENT_PART)
}

/// Maximum memory of the process, with `memory` bytes for content.
pub(super) fn process_bytes(memory: usize, limits: &Limits) -> u64 {
    let connection = CONNECTION_BYTES + limits.header_bytes_max as u64;
    memory::process_bytes(memory as u64)
        .saturating_add((memory / CONTENT_PART) as u64)
        .saturating_add(connection.saturating_mul(limits.connections_max as u64))
}

/// Whether a client has closed its side.
pub(super) fn has_left(stream: &TlsStream<TcpStream>) -> bool {
    let mut socket = [PollFd::new(stream.get_ref(), PollFlags::RDHUP)];
    poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
