//! NetCache's protocol over UDP: `docs/protocols/netcache.md`.
//!
//! A datagram is one message: a header of 32 bytes, all numbers big-endian, and a value to its end.

mod operation;
#[cfg(test)]
mod tests;

pub use operation::{Op, Party, TAGS_AHEAD_MAX};

use crate::{Error, Result};

const PROTOCOL: &str = "netcache";

/// Bytes before the value.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a key field.
pub const KEY_BYTES: usize = 16;
/// Maximum length of a key whose hash is in the key field.
pub const LONG_KEY_BYTES_MAX: usize = 250;
/// Maximum length of the value of a message, including a long key.
pub const VALUE_BYTES_MAX: usize = 65_000;

/// The key field: the key itself, or 16 bytes made from a longer one.
pub type Key = [u8; KEY_BYTES];

/// Flag bits beside the operation; bits without a name here are preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The key field is a hash of a longer key; the value begins with one byte for the length of
    /// that key, and the key.
    pub const LONG_KEY: Self = Self(1);
    /// The message has a value.
    pub const FOUND: Self = Self(2);
    /// The switch has answered.
    pub const SWITCH: Self = Self(4);
    /// The switch has carried out the request.
    pub const STORED: Self = Self(8);
    /// The switch has an entry for the key.
    pub const CACHED: Self = Self(16);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other`, if `when`.
    #[must_use]
    pub fn with(self, other: Self, when: bool) -> Self {
        if when { Self(self.0 | other.0) } else { self }
    }
}

/// One message; the value is borrowed from the datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// The operation.
    pub op: Op,
    /// Flag bits.
    pub flags: Flags,
    /// The value that the switch added so that the datagram's checksum stays the same; 0 from any
    /// other sender.
    pub balance: u16,
    /// Chosen by the sender, returned in the answer.
    pub sequence: u32,
    /// The key, or the hash of a longer one.
    pub key: Key,
    /// Version of the write; 0 if there is none.
    pub version: u64,
    /// The value; with [`Flags::LONG_KEY`], preceded by the key.
    pub value: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message without value, version or flags.
    pub fn new(op: Op, sequence: u32, key: Key) -> Self {
        Self { op, flags: Flags::default(), balance: 0, sequence, key, version: 0, value: &[] }
    }

    /// Reads one datagram.
    ///
    /// # Errors
    /// It is shorter than a header, or its operation is unknown.
    pub fn decode(datagram: &'a [u8]) -> Result<Self> {
        let (header, value) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| {
            malformed(datagram.len(), "32 bytes of header", format!("{}", datagram.len()))
        })?;
        let [op, flags, b0, b1, s0, s1, s2, s3, rest @ ..] = *header;
        let (key, version) = split(rest);
        Ok(Self {
            op: Op::of(op)
                .ok_or_else(|| malformed(0, "an operation from 1 to 18", op.to_string()))?,
            flags: Flags(flags),
            balance: u16::from_be_bytes([b0, b1]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            key,
            version: u64::from_be_bytes(version),
            value,
        })
    }

    /// Appends the datagram to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend([self.op as u8, self.flags.0]);
        out.extend(self.balance.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.key);
        out.extend(self.version.to_be_bytes());
        out.extend(self.value);
    }

    /// The datagram.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.value.len());
        self.encode(&mut out);
        out
    }

    /// The long key of a message with [`Flags::LONG_KEY`], and the bytes after it.
    ///
    /// # Errors
    /// The value is too short for its key.
    pub fn long_key(&self) -> Result<Option<(&'a [u8], &'a [u8])>> {
        if !self.flags.has(Flags::LONG_KEY) {
            return Ok(None);
        }
        let parts = self.value.split_first().and_then(|(length, rest)| {
            rest.split_at_checked(usize::from(*length)).filter(|(key, _)| !key.is_empty())
        });
        let parts = parts.ok_or_else(|| {
            malformed(
                HEADER_BYTES,
                "a length and that many bytes of key",
                self.value.len().to_string(),
            )
        })?;
        Ok(Some(parts))
    }
}

fn split(rest: [u8; 24]) -> (Key, [u8; 8]) {
    let (mut key, mut version) = ([0; KEY_BYTES], [0; 8]);
    let (left, right) = rest.split_at(KEY_BYTES);
    key.copy_from_slice(left);
    version.copy_from_slice(right);
    (key, version)
}

fn malformed(offset: usize, expected: &'static str, got: String) -> Error {
    Error::Malformed { protocol: PROTOCOL, offset, expected, got }
}
