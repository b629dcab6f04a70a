//! Format of a record in a segment: docs/formats/elastic-store.md.
//!
//! ```text
//! 0      4      5      6      8       12        16       24    24+k     +8        +8      padding
//! | crc  | kind | more | key  | value | durable | kills | key | version | expires | value | to 16
//! ```
//!
//! The memory table keeps the last three fields, the *body*, so that an entry moves between the two
//! by one copy.

use std::ops::Range;
use std::time::Duration;

use crate::blocks::Blocks;
use crate::checksum::checksum;

/// Granularity of places in a segment.
pub(super) const UNIT_BYTES: usize = 16;
const HEADER_BYTES: usize = 24;
/// Bytes of a body before its value.
pub(super) const BODY_BYTES: usize = 16;

/// Permanent address of a record: segment number, and units from the segment's start in 24 bits. 0
/// means no address, because every segment begins with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address(pub(super) u64);

impl Address {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(segment: u64, offset: u64) -> Self {
        Self((segment << 24) | (offset / UNIT_BYTES as u64))
    }

    pub(super) fn segment(self) -> u64 {
        self.0 >> 24
    }

    pub(super) fn offset(self) -> u64 {
        (self.0 & 0xff_ffff) * UNIT_BYTES as u64
    }
}

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An entry; the record it kills is the one it replaces.
    Put = 1,
    /// Its value lists records that are dead, each as hash and address.
    Kills = 2,
}

/// A record to be written, or one that was read and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    /// The next record belongs to the same step.
    pub(super) more: bool,
    /// Position up to which the segment was durable when this record was appended, in units.
    pub(super) durable: u32,
    /// Address of the record that this one kills.
    pub(super) kills: Address,
    pub(super) key: &'a [u8],
    /// Version, expiry and value.
    pub(super) body: Body<'a>,
}

/// The part of an entry that is kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Body<'a> {
    pub(super) version: u64,
    pub(super) expires_at: Expiry,
    pub(super) value: &'a [u8],
}

/// The time of every call to the memory table, which does not handle expiry: expiries are in the
/// bodies, in milliseconds.
pub(super) const NEVER: Duration = Duration::ZERO;

/// Milliseconds since the Unix epoch; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expiry(pub(super) u64);

impl Expiry {
    pub(super) const NEVER: Self = Self(0);

    pub(super) fn new(at: Option<Duration>) -> Self {
        let millis = |at: Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX).max(1);
        at.map_or(Self::NEVER, |at| Self(millis(at)))
    }

    pub(super) fn time(self) -> Option<Duration> {
        (self.0 != 0).then(|| Duration::from_millis(self.0))
    }

    pub(super) fn is_over(self, now: Duration) -> bool {
        self.0 != 0 && u128::from(self.0) <= now.as_millis()
    }
}

impl<'a> Body<'a> {
    /// Reads a body; the slice ends where the value ends.
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        Self {
            version: u64_at(bytes, 0),
            expires_at: Expiry(u64_at(bytes, 8)),
            value: &bytes[BODY_BYTES..],
        }
    }

    /// The bytes before the value.
    pub(super) fn head(&self) -> [u8; BODY_BYTES] {
        let mut bytes = [0; BODY_BYTES];
        bytes[..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..].copy_from_slice(&self.expires_at.0.to_le_bytes());
        bytes
    }

    /// The body as the memory table keeps it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BODY_BYTES + self.value.len());
        bytes.extend_from_slice(&self.head());
        bytes.extend_from_slice(self.value);
        bytes
    }
}

/// Bytes a record takes in its segment, padding included.
pub(super) fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (HEADER_BYTES + key_bytes + BODY_BYTES + value_bytes).next_multiple_of(UNIT_BYTES)
}

impl<'a> Record<'a> {
    pub(super) fn bytes(&self) -> usize {
        record_bytes(self.key.len(), self.body.value.len())
    }

    /// The segment was durable up to this offset when the record was appended.
    pub(super) fn durable_bytes(&self) -> u64 {
        u64::from(self.durable) * UNIT_BYTES as u64
    }

    fn bytes_unpadded(&self) -> usize {
        HEADER_BYTES + self.key.len() + BODY_BYTES + self.body.value.len()
    }

    /// Appends the record, which will be at `address`.
    pub(super) fn write(&self, address: Address, out: &mut Blocks) {
        let mut header = [0; HEADER_BYTES];
        header[4] = self.kind as u8;
        header[5] = u8::from(self.more);
        header[6..8].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        header[8..12].copy_from_slice(&(self.body.value.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&self.durable.to_le_bytes());
        header[16..].copy_from_slice(&self.kills.0.to_le_bytes());
        let body = self.body.head();
        // Computed from the parts, not from the written bytes: those are not in memory yet, and
        // reading them back would wait.
        let place = address.0.to_le_bytes();
        let crc = checksum(&[&place, &header[4..], self.key, &body, self.body.value]);
        header[..4].copy_from_slice(&crc.to_le_bytes());
        let mut rest = out.extend(self.bytes());
        for part in [&header[..], self.key, &body, self.body.value] {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        rest.fill(0);
    }

    /// Marks the record at the start of `bytes`, which will lie at `address`, as the last of its
    /// step.
    pub(super) fn end_step(address: Address, bytes: &mut [u8]) {
        bytes[5] = 0;
        let end = Record::parse(bytes).expect("it was written here").bytes_unpadded();
        let crc = whole_checksum(address, &bytes[4..end]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the record at the start of `bytes`, which lie at `address`; an error if it is not
    /// valid.
    pub(super) fn read(address: Address, bytes: &'a [u8]) -> Result<Self, Broken> {
        let record = Self::parse(bytes)?;
        let end = record.bytes_unpadded();
        let (stored, computed) = (u32_at(bytes, 0), whole_checksum(address, &bytes[4..end]));
        if stored != computed {
            return Err(Broken::Checksum { stored, computed });
        }
        Ok(record)
    }

    /// Returns the length of the record at the start of `bytes` without padding, as its header
    /// states it, and the difference of its checksum from the right one.
    pub(super) fn wrong_by(address: Address, bytes: &[u8]) -> Option<(usize, u32)> {
        let end = Self::parse_any(bytes)?;
        Some((end, u32_at(bytes, 0) ^ whole_checksum(address, &bytes[4..end])))
    }

    /// Returns the end of the record at the start of `bytes`, without padding, whatever its kind.
    pub(super) fn parse_any(bytes: &[u8]) -> Option<usize> {
        let header = bytes.get(..HEADER_BYTES)?;
        let key_bytes = u16::from_le_bytes([header[6], header[7]]) as usize;
        let value_bytes = u32_at(header, 8) as usize;
        let end = HEADER_BYTES + key_bytes + BODY_BYTES + value_bytes;
        (end <= bytes.len()).then_some(end)
    }

    /// Reads a record that is known to be intact because it never left memory.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Broken> {
        if bytes.len() < HEADER_BYTES {
            return Err(Broken::Short { got: bytes.len() });
        }
        let kind = match bytes[4] {
            1 => Kind::Put,
            2 => Kind::Kills,
            other => return Err(Broken::Kind(other)),
        };
        let key_bytes = u16::from_le_bytes([bytes[6], bytes[7]]) as usize;
        let value_bytes = u32_at(bytes, 8) as usize;
        let end = HEADER_BYTES + key_bytes + BODY_BYTES + value_bytes;
        if bytes.len() < end {
            return Err(Broken::Short { got: bytes.len() });
        }
        let body = HEADER_BYTES + key_bytes;
        Ok(Self {
            kind,
            more: bytes[5] != 0,
            durable: u32_at(bytes, 12),
            kills: Address(u64_at(bytes, 16)),
            key: &bytes[HEADER_BYTES..body],
            body: Body::read(&bytes[body..end]),
        })
    }

    /// The key of the record at the start of `bytes`, which may be incomplete.
    pub(super) fn name(bytes: &'a [u8]) -> Option<&'a [u8]> {
        let header = bytes.get(..HEADER_BYTES)?;
        let key_bytes = u16::from_le_bytes([header[6], header[7]]) as usize;
        bytes.get(HEADER_BYTES..HEADER_BYTES + key_bytes)
    }

    /// Range of the body within the record.
    pub(super) fn body_range(&self) -> Range<usize> {
        let start = HEADER_BYTES + self.key.len();
        start..start + BODY_BYTES + self.body.value.len()
    }
}

/// Reasons why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("the record ends after {got} bytes")]
    Short { got: usize },
    #[error("record kind {0}, expected 1 or 2")]
    Kind(u8),
    #[error("checksum {stored:08x}, expected {computed:08x}")]
    Checksum { stored: u32, computed: u32 },
}

/// The checksum covers the address of the record, so that a record written to the wrong place is
/// detected.
fn whole_checksum(address: Address, bytes: &[u8]) -> u32 {
    checksum(&[&address.0.to_le_bytes(), bytes])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A record's length in sixteen bits, rounded up: exact below 64 KiB, within 1/2048 above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class(pub(super) u16);

impl Class {
    pub(super) fn of(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT_BYTES);
        let exponent = (usize::BITS - units.leading_zeros()).saturating_sub(12);
        let mantissa = units.div_ceil(1 << exponent);
        if mantissa < 1 << 12 {
            Self((exponent as u16) << 12 | mantissa as u16)
        } else {
            Self((exponent as u16 + 1) << 12 | 1 << 11)
        }
    }

    pub(super) fn bytes(self) -> usize {
        ((self.0 & 0xfff) as usize) << (self.0 >> 12) << UNIT_BYTES.ilog2()
    }
}

/// The records a `Kills` record lists, each with its key's hash.
pub(super) fn kills_of(value: &[u8]) -> impl Iterator<Item = (u64, Address)> + '_ {
    value.chunks_exact(16).map(|kill| (u64_at(kill, 0), Address(u64_at(kill, 8))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_exact_for_small_records_and_never_too_small() {
        for bytes in (16..4095 * 16).step_by(16) {
            assert_eq!(Class::of(bytes).bytes(), bytes);
        }
        for bytes in (65_536..64 << 20).step_by(99_991) {
            let class = Class::of(bytes).bytes();
            assert!(class >= bytes && class - bytes <= bytes / 1024, "{bytes} {class}");
        }
    }

    #[test]
    fn a_record_is_read_back_and_a_flipped_bit_is_found() {
        let record = Record {
            kind: Kind::Put,
            more: true,
            durable: 7,
            kills: Address(99),
            key: b"key",
            body: Body { version: 5, expires_at: Expiry(6), value: b"value" },
        };
        let address = Address::new(3, 4096);
        let mut bytes = Blocks::default();
        record.write(address, &mut bytes);
        assert_eq!(bytes.len(), record.bytes());
        assert_eq!(Record::read(address, &bytes), Ok(record));
        assert_eq!(Body::read(&bytes[record.body_range()]), record.body);
        assert!(Record::read(Address::new(3, 4112), &bytes).is_err(), "it lies elsewhere");
        Record::end_step(address, &mut bytes);
        assert_eq!(Record::read(address, &bytes), Ok(Record { more: false, ..record }));
        let covered = HEADER_BYTES + record.key.len() + BODY_BYTES + record.body.value.len();
        for bit in 0..covered * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::read(address, &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
