//! The few messages of Redis' protocol that are measured, byte for byte.
//!
//! Keys are 16 hexadecimal digits; a value is its key, repeated. So every reply has a length known
//! beforehand, and whether it belongs to its request can be seen at its start.

/// Bytes of every key.
pub(crate) const KEY_BYTES: usize = 16;
/// Bytes of a GET.
pub(crate) const GET_BYTES: usize = GET.len() + KEY_BYTES + 2;

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$16\r\n";
/// The reply to SET.
pub(crate) const OK: &[u8] = b"+OK\r\n";

/// The key with this number.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    for (place, digit) in key.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 0xf) as usize];
    }
    key
}

/// Appends `GET key`.
pub(crate) fn write_get(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(GET);
    out.extend_from_slice(&key(number));
    out.extend_from_slice(b"\r\n");
}

/// Appends `SET key value`.
pub(crate) fn write_set(number: u64, value_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(SET);
    out.extend_from_slice(&key(number));
    out.extend_from_slice(b"\r\n");
    write_value(&key(number), value_bytes, out);
}

/// Appends the reply to a GET.
pub(crate) fn write_value(key: &[u8; KEY_BYTES], value_bytes: usize, out: &mut Vec<u8>) {
    assert_eq!(value_bytes % KEY_BYTES, 0, "a value is its key, repeated");
    out.extend_from_slice(format!("${value_bytes}\r\n").as_bytes());
    write_repeated(key, value_bytes, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a value.
pub(crate) fn write_repeated(key: &[u8; KEY_BYTES], value_bytes: usize, out: &mut Vec<u8>) {
    for _ in 0..value_bytes / KEY_BYTES {
        out.extend_from_slice(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_redis_takes() {
        let mut out = Vec::new();
        write_get(0xabc, &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$16\r\n0000000000000abc\r\n");
        assert_eq!(out.len(), GET_BYTES);
        out.clear();
        write_set(1, 32, &mut out);
        let set = b"*3\r\n$3\r\nSET\r\n$16\r\n0000000000000001\r\n$32\r\n00000000000000010000000000000001\r\n";
        assert_eq!(out, set);
        out.clear();
        write_value(&key(1), 32, &mut out);
        assert_eq!(out, b"$32\r\n00000000000000010000000000000001\r\n");
    }
}
