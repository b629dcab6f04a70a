//! Server Filter: converts replies for storage, and back.
//!
//! A bulk string is stored as `$` and its payload, null as `_`, anything else unchanged.

use std::borrow::Cow;

use wire::resp::{Frame, Kind, Version, response};

pub(super) fn pack(reply: &Frame<'_>, packed: &mut Vec<u8>) {
    match reply.payload().filter(|_| reply.kind() == Kind::Bulk) {
        Some(payload) => {
            packed.push(b'$');
            packed.extend_from_slice(payload);
        }
        None if reply.is_null() && reply.value_bytes().first() != Some(&b'*') => packed.push(b'_'),
        None => packed.extend_from_slice(reply.value_bytes()),
    }
}

pub(super) fn unpack(packed: &[u8], version: Version, out: &mut Vec<u8>) {
    match packed.split_first() {
        Some((b'$', payload)) => response::write_bulk(out, payload),
        Some((b'_', _)) => response::write_null(out, version),
        _ => out.extend_from_slice(packed),
    }
}

/// Commands whose elements come in no defined order, which also reads can change.
const UNORDERED: [&str; 4] = ["hgetall", "hkeys", "hvals", "smembers"];

/// A packed answer with its lines in one order, if the origin may give them in any.
pub(super) fn ordered<'p>(variant: &[u8], packed: &'p [u8]) -> Cow<'p, [u8]> {
    let is_unordered = |name: &&str| variant.get(1..) == Some(name.as_bytes());
    if !UNORDERED.iter().any(is_unordered) {
        return Cow::Borrowed(packed);
    }
    let mut lines: Vec<&[u8]> = packed.split(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    Cow::Owned(lines.concat())
}
