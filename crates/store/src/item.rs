//! Memory layout of one item.
//!
//! ```text
//! 0        4        8        12       16
//! | prev   | next   | hash   | meta   | [long: value u32, key u32] [expiry u32] key value padding
//! ```
//!
//! `prev` and `next` link the policy's queues. `meta` holds, from bit 0: marks of the policy (4),
//! dead (1), has expiry (1), long (1), unused (1), key length (8), value length (16). Lengths that
//! do not fit move to the two words after the header and `long` is set: a 64-byte value under a
//! 16-byte key takes 96 bytes in all. Everything is padded to [`UNIT_BYTES`], so that a
//! [`Location`] of 32 bits reaches 32 GiB.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};

/// The start of an item, in units of [`UNIT_BYTES`] from the start of the arena.
pub(crate) type Location = u32;

/// Granularity of locations and padding.
pub(crate) const UNIT_BYTES: usize = 8;

/// Bits of `meta` that belong to the policy.
pub(crate) const MARKS: u32 = 0xf;
const DEAD: u32 = 1 << 4;
const EXPIRES: u32 = 1 << 5;
const LONG: u32 = 1 << 6;
const KEY_SHIFT: u32 = 8;
const VALUE_SHIFT: u32 = 16;

/// The sixteen bytes before every item.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) prev: Location,
    pub(crate) next: Location,
    pub(crate) hash: u32,
    pub(crate) meta: u32,
}

/// Bytes of [`Header`].
pub(crate) const HEADER_BYTES: usize = size_of::<Header>();

impl Header {
    pub(crate) fn is_dead(self) -> bool {
        self.meta & DEAD != 0
    }

    pub(crate) fn set_dead(&mut self) {
        self.meta |= DEAD;
    }
}

/// Lengths of one item; everything else about its layout follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) expires: bool,
}

impl Shape {
    #[inline]
    fn is_long(self) -> bool {
        self.key_bytes > 0xff || self.value_bytes > 0xffff
    }

    #[inline]
    fn key_offset(self) -> usize {
        let long = if self.is_long() { 8 } else { 0 };
        let expiry = if self.expires { EXPIRY_BYTES } else { 0 };
        HEADER_BYTES + long + expiry
    }

    /// Bytes of the item, including padding.
    pub(crate) fn bytes(self) -> usize {
        (self.key_offset() + self.key_bytes + self.value_bytes).next_multiple_of(UNIT_BYTES)
    }

    /// Whether an item of shape `new` can be written in place of one of this shape.
    pub(crate) fn fits_in_place_of(self, new: Self) -> bool {
        self.expires == new.expires && self.bytes() == new.bytes()
    }

    fn meta(self) -> u32 {
        let lengths = if self.is_long() {
            LONG
        } else {
            (self.key_bytes as u32) << KEY_SHIFT | (self.value_bytes as u32) << VALUE_SHIFT
        };
        lengths | if self.expires { EXPIRES } else { 0 }
    }

    /// Reads the shape of the item that starts at `bytes`.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let meta = header(bytes).meta;
        let expires = meta & EXPIRES != 0;
        if meta & LONG == 0 {
            let key_bytes = (meta >> KEY_SHIFT & 0xff) as usize;
            return Self { key_bytes, value_bytes: (meta >> VALUE_SHIFT) as usize, expires };
        }
        let lengths: &[u32; 2] = bytemuck::from_bytes(&bytes[HEADER_BYTES..HEADER_BYTES + 8]);
        Self { key_bytes: lengths[1] as usize, value_bytes: lengths[0] as usize, expires }
    }
}

/// Bytes of a line of the processor's cache.
pub(crate) const LINE_BYTES: usize = 64;

/// Returns whether the item at the start of `bytes` is stored under `key`.
#[inline]
pub(crate) fn has_key(bytes: &[u8], key: Key<'_>) -> bool {
    // The next line is read too if this is the item, so both are fetched together.
    std::hint::black_box(bytes.get(LINE_BYTES).copied());
    let shape = Shape::read(bytes);
    let offset = shape.key_offset();
    key.is(&bytes[offset..offset + shape.key_bytes])
}

/// The header at the start of `bytes`.
#[inline]
pub(crate) fn header(bytes: &[u8]) -> Header {
    *bytemuck::from_bytes(&bytes[..HEADER_BYTES])
}

/// The value of the item at the start of `bytes`, to change.
pub(crate) fn value_mut(bytes: &mut [u8]) -> &mut [u8] {
    let shape = Shape::read(bytes);
    let offset = shape.key_offset() + shape.key_bytes;
    &mut bytes[offset..offset + shape.value_bytes]
}

/// The header at the start of `bytes`, to change.
pub(crate) fn header_mut(bytes: &mut [u8]) -> &mut Header {
    bytemuck::from_bytes_mut(&mut bytes[..HEADER_BYTES])
}

/// Unit of expiries, which are stored since the start and rounded down: an item may expire this
/// much early, never late. 32 bits reach two years; a later expiry counts as two years.
const TICK: Duration = Duration::from_millis(16);
const EXPIRY_BYTES: usize = 4;

fn ticks(at: Duration) -> u32 {
    u32::try_from(at.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

/// Nanoseconds for comparison; times more than five centuries away count as never.
pub(crate) fn nanos(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

/// A key, stored and compared as `prefix` followed by `bytes`, so that a caller with a common
/// prefix need not copy its keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Key<'a> {
    /// The first part of the value.
    pub prefix: &'a [u8],
    /// The rest.
    pub bytes: &'a [u8],
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Key<'a> {
    fn from(bytes: &'a B) -> Self {
        Self { prefix: &[], bytes: bytes.as_ref() }
    }
}

impl Key<'_> {
    pub(crate) fn len(self) -> usize {
        self.prefix.len() + self.bytes.len()
    }

    #[inline]
    fn is(self, stored: &[u8]) -> bool {
        stored
            .split_at_checked(self.prefix.len())
            .is_some_and(|(prefix, bytes)| equal(bytes, self.bytes) && equal(prefix, self.prefix))
    }
}

/// Compares like `==`, without the function call, which costs more than comparing a short key.
#[inline]
fn equal(one: &[u8], other: &[u8]) -> bool {
    let (one_words, one_rest) = one.as_chunks::<8>();
    let (other_words, other_rest) = other.as_chunks::<8>();
    one.len() == other.len()
        && one_words.iter().zip(other_words).all(|(one, other)| one == other)
        && one_rest.iter().zip(other_rest).all(|(one, other)| one == other)
}

/// One item as passed by the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) hash: u32,
    pub(crate) key: Key<'a>,
    pub(crate) value: &'a [u8],
    pub(crate) expires_at: Option<Duration>,
}

impl<'a> Item<'a> {
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            key_bytes: self.key.len(),
            value_bytes: self.value.len(),
            expires: self.expires_at.is_some(),
        }
    }

    /// Writes the item to the start of `bytes`, without links or marks.
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        let shape = self.shape();
        *header_mut(bytes) = Header { prev: 0, next: 0, hash: self.hash, meta: shape.meta() };
        if shape.is_long() {
            let lengths = [self.value.len() as u32, self.key.len() as u32];
            bytes[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(bytemuck::bytes_of(&lengths));
        }
        let key_offset = shape.key_offset();
        if let Some(at) = self.expires_at {
            let place = key_offset - EXPIRY_BYTES..key_offset;
            bytes[place].copy_from_slice(bytemuck::bytes_of(&ticks(at)));
        }
        let value_offset = key_offset + self.key.len();
        let bytes_offset = key_offset + self.key.prefix.len();
        bytes[key_offset..bytes_offset].copy_from_slice(self.key.prefix);
        bytes[bytes_offset..value_offset].copy_from_slice(self.key.bytes);
        bytes[value_offset..value_offset + self.value.len()].copy_from_slice(self.value);
    }

    /// Reads the item at the start of `bytes`.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Self {
        let shape = Shape::read(bytes);
        let key_offset = shape.key_offset();
        let value_offset = key_offset + shape.key_bytes;
        let expires_at = shape.expires.then(|| {
            let ticks: u32 = *bytemuck::from_bytes(&bytes[key_offset - EXPIRY_BYTES..key_offset]);
            TICK * ticks
        });
        Self {
            hash: header(bytes).hash,
            key: (&bytes[key_offset..value_offset]).into(),
            value: &bytes[value_offset..value_offset + shape.value_bytes],
            expires_at,
        }
    }
}
