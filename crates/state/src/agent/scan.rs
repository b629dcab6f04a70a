//! Cursors of SCAN over all primaries.
//!
//! A cursor of the agent names the node, by its place among the addresses of all primaries, and the
//! cursor of that node. It also contains a hash of these addresses, so that an iteration ends with
//! an error, and skips no node, when a primary has joined or left. The agent keeps nothing of an
//! iteration: it may go on over another connection, and through another agent.

use std::net::SocketAddr;

use policy::hotkey::hash;
use wire::resp::{Frame, response};

/// Bits of a cursor for the place of the node; a cluster has at most 1,000.
const PLACE_BITS: u32 = 10;
/// Bits for the hash of the addresses.
const HASH_BITS: u32 = 11;
/// Bits for the cursor of the node. Together they are 63: some clients read a cursor as a signed
/// number.
const NODE_BITS: u32 = 42;
const SEED: u64 = 0;

/// One step of an iteration.
#[derive(Debug)]
pub(super) struct Scan {
    node: SocketAddr,
    place: u64,
    /// The number of primaries.
    places: u64,
    hash: u64,
    of_node: u64,
}

impl Scan {
    /// Reads a client's cursor; `primaries` are in the order of their addresses.
    ///
    /// # Errors
    /// It is not a cursor, or of other primaries.
    pub(super) fn read(cursor: &[u8], primaries: &[SocketAddr]) -> Result<Self, &'static str> {
        let number = std::str::from_utf8(cursor).ok().and_then(|text| text.parse::<u64>().ok());
        let cursor = number.ok_or("ERR invalid cursor")?;
        let bits = |from: u32, count: u32| cursor >> from & ((1 << count) - 1);
        let of_node = bits(0, NODE_BITS);
        let (hash, place) = (bits(NODE_BITS, HASH_BITS), bits(NODE_BITS + HASH_BITS, PLACE_BITS));
        let expected = hash_of(primaries);
        let node = usize::try_from(place).ok().and_then(|place| primaries.get(place));
        if cursor != 0 && (hash != expected || node.is_none()) {
            return Err(
                "ERR SCAN: the primaries of the cluster have changed since cursor 0; begin again with it",
            );
        }
        let node = *node.ok_or("ERR invalid cursor")?;
        Ok(Self { node, place, places: primaries.len() as u64, hash: expected, of_node })
    }

    /// The node that continues.
    pub(super) fn node(&self) -> SocketAddr {
        self.node
    }

    /// The cursor for it.
    pub(super) fn of_node(&self) -> u64 {
        self.of_node
    }

    /// The reply to the client for that of the node: with the cursor of the agent. `None` if it is
    /// not a reply to SCAN.
    pub(super) fn reply(&self, reply: &Frame<'_>) -> Option<Vec<u8>> {
        let mut parts = reply.elements();
        let (cursor, keys) = (parts.next()?, parts.next()?);
        let cursor: u64 = std::str::from_utf8(cursor.payload()?).ok()?.parse().ok()?;
        let mut out = Vec::new();
        if cursor >> NODE_BITS != 0 {
            let text = format!(
                "ERR SCAN: expected a cursor of {} of at most {NODE_BITS} bits, found {cursor}",
                self.node
            );
            response::write_error(&mut out, text.as_bytes());
            return Some(out);
        }
        let place = if cursor == 0 { self.place + 1 } else { self.place };
        let next = match place < self.places {
            true => place << (NODE_BITS + HASH_BITS) | self.hash << NODE_BITS | cursor,
            false => 0,
        };
        response::write_array_header(&mut out, 2);
        response::write_bulk(&mut out, next.to_string().as_bytes());
        out.extend_from_slice(keys.bytes());
        Some(out)
    }
}

fn hash_of(primaries: &[SocketAddr]) -> u64 {
    let text: String = primaries.iter().map(|node| format!("{node} ")).collect();
    hash(text.as_bytes(), SEED) & ((1 << HASH_BITS) - 1)
}
