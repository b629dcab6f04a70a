//! The few messages of memcached's text protocol that are measured, byte for byte. Keys and values
//! are those of [`crate::resp`].

use crate::resp::{key, write_repeated};

/// The reply to `set`.
pub(crate) const STORED: &[u8] = b"STORED\r\n";

/// Appends `get key`.
pub(crate) fn write_get(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"get ");
    out.extend_from_slice(&key(number));
    out.extend_from_slice(b"\r\n");
}

/// Appends `set key` and the value.
pub(crate) fn write_set(number: u64, value_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(&key(number));
    out.extend_from_slice(format!(" 0 0 {value_bytes}\r\n").as_bytes());
    write_repeated(&key(number), value_bytes, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the reply to a `get`.
pub(crate) fn write_reply(number: u64, value_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(&key(number));
    out.extend_from_slice(format!(" 0 {value_bytes}\r\n").as_bytes());
    write_repeated(&key(number), value_bytes, out);
    out.extend_from_slice(b"\r\nEND\r\n");
}
