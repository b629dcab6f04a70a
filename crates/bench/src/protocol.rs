//! The protocols of the client, each with the same keys and values.

use crate::{
    memcached,
    resp::{self, KEY_BYTES},
};

/// A protocol whose replies to reads of values of one length have one length too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Redis,
    Memcached,
}

impl Protocol {
    /// Appends a read.
    pub(crate) fn write_get(self, number: u64, out: &mut Vec<u8>) {
        match self {
            Self::Redis => resp::write_get(number, out),
            Self::Memcached => memcached::write_get(number, out),
        }
    }

    /// Appends a write.
    pub(crate) fn write_set(self, number: u64, value_bytes: usize, out: &mut Vec<u8>) {
        match self {
            Self::Redis => resp::write_set(number, value_bytes, out),
            Self::Memcached => memcached::write_set(number, value_bytes, out),
        }
    }

    /// The reply to a write.
    pub(crate) fn stored(self) -> &'static [u8] {
        match self {
            Self::Redis => resp::OK,
            Self::Memcached => memcached::STORED,
        }
    }

    /// Appends the reply to a read.
    pub(crate) fn write_reply(self, number: u64, value_bytes: usize, out: &mut Vec<u8>) {
        match self {
            Self::Redis => resp::write_value(&resp::key(number), value_bytes, out),
            Self::Memcached => memcached::write_reply(number, value_bytes, out),
        }
    }
}

/// How a reply to a read begins, up to the first key in its value: that shows which read it is of.
pub(crate) struct Beginning {
    bytes: Vec<u8>,
    /// Where the key is in them.
    places: Vec<usize>,
    /// Length of the whole reply.
    pub(crate) reply_bytes: usize,
}

impl Beginning {
    pub(crate) fn new(protocol: Protocol, value_bytes: usize) -> Self {
        let (number, mut bytes) = (u64::MAX, Vec::new());
        protocol.write_reply(number, value_bytes, &mut bytes);
        let reply_bytes = bytes.len();
        let value = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(value + KEY_BYTES);
        let key = resp::key(number);
        let is_key = |place: &usize| bytes.get(*place..place + KEY_BYTES) == Some(&key[..]);
        let places = (0..bytes.len()).filter(is_key).collect();
        Self { bytes, places, reply_bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The beginning of the reply for this key.
    pub(crate) fn of(&mut self, number: u64) -> &[u8] {
        let key = resp::key(number);
        for &place in &self.places {
            self.bytes[place..place + KEY_BYTES].copy_from_slice(&key);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_memcached_takes() {
        let mut out = Vec::new();
        Protocol::Memcached.write_get(0xabc, &mut out);
        assert_eq!(out, b"get 0000000000000abc\r\n");
        out.clear();
        Protocol::Memcached.write_set(1, 32, &mut out);
        let set = b"set 0000000000000001 0 0 32\r\n00000000000000010000000000000001\r\n";
        assert_eq!(out, set);
        out.clear();
        Protocol::Memcached.write_reply(1, 32, &mut out);
        let reply = b"VALUE 0000000000000001 0 32\r\n00000000000000010000000000000001\r\nEND\r\n";
        assert_eq!(out, reply);
    }

    #[test]
    fn a_reply_begins_with_the_key_wherever_it_states_it() {
        for protocol in [Protocol::Redis, Protocol::Memcached] {
            let mut beginning = Beginning::new(protocol, 64);
            for number in [0, 7, u64::MAX] {
                let mut reply = Vec::new();
                protocol.write_reply(number, 64, &mut reply);
                assert_eq!(reply.len(), beginning.reply_bytes);
                assert!(reply.starts_with(beginning.of(number)), "{protocol:?} {number}");
                assert!(!reply.starts_with(beginning.of(!number)), "{protocol:?} {number}");
            }
        }
    }
}
