//! Reads little-endian fields from a byte slice and keeps the offset for errors.

use super::bson::Document;
use crate::{Error, Result};

/// The codec's name in errors.
pub(super) const PROTOCOL: &str = "mongodb";

/// Bytes still to be read and where in the frame they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Everything left; the reader is empty afterwards.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = std::mem::take(&mut self.bytes);
        self.offset += rest.len();
        rest
    }

    #[inline]
    pub(super) fn take(&mut self, length: usize, expected: &'static str) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            return Err(self.short(expected));
        };
        self.bytes = rest;
        self.offset += length;
        Ok(taken)
    }

    #[inline]
    pub(super) fn u8(&mut self, expected: &'static str) -> Result<u8> {
        let [byte] = self.array(expected)?;
        Ok(byte)
    }

    #[inline]
    pub(super) fn i32(&mut self, expected: &'static str) -> Result<i32> {
        self.array(expected).map(i32::from_le_bytes)
    }

    #[inline]
    pub(super) fn u32(&mut self, expected: &'static str) -> Result<u32> {
        self.array(expected).map(u32::from_le_bytes)
    }

    #[inline]
    pub(super) fn i64(&mut self, expected: &'static str) -> Result<i64> {
        self.array(expected).map(i64::from_le_bytes)
    }

    /// The bytes before the next NUL; the NUL is consumed.
    #[inline]
    pub(super) fn cstring(&mut self, expected: &'static str) -> Result<&'a [u8]> {
        let Some(length) = self.bytes.iter().position(|byte| *byte == 0) else {
            return Err(self.short(expected));
        };
        let text = self.take(length, expected)?;
        self.take(1, expected)?;
        Ok(text)
    }

    /// A block that begins with its own `i32` length, which counts all of the block but `beyond`
    /// bytes; the length is part of what is returned.
    #[inline]
    pub(super) fn block(
        &mut self,
        length_min: i32,
        beyond: usize,
        expected: &'static str,
    ) -> Result<&'a [u8]> {
        let mut ahead = *self;
        let declared = ahead.i32(expected)?;
        if declared < length_min {
            return Err(malformed(self.offset, expected, format_args!("length {declared}")));
        }
        // `declared` is not negative here: every caller's minimum is at least zero.
        self.take((declared as usize).saturating_add(beyond), expected)
    }

    /// A document at the reader's place.
    #[inline]
    pub(super) fn document(&mut self) -> Result<Document<'a>> {
        let offset = self.offset;
        let bytes = self.block(Document::BYTES_MIN, 0, "a BSON document")?;
        Document::parse_at(bytes, offset)
    }

    #[inline]
    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N]> {
        let Some((taken, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(self.short(expected));
        };
        self.bytes = rest;
        self.offset += N;
        Ok(*taken)
    }

    #[cold]
    fn short(&self, expected: &'static str) -> Error {
        malformed(self.offset, expected, format_args!("only {} bytes", self.bytes.len()))
    }
}

/// An [`Error::Malformed`] of this codec.
#[cold]
pub(super) fn malformed(
    offset: usize,
    expected: &'static str,
    got: impl std::fmt::Display,
) -> Error {
    Error::Malformed { protocol: PROTOCOL, offset, expected, got: got.to_string() }
}
