//! BSON read in place: documents are slices, elements are found by iteration.
//!
//! **What it is not.** Not an owned document model, no conversion to Rust types beyond the few the
//! protocol needs. Length and terminator of a document are checked when it is created; each element
//! is checked when the iteration reaches it, so a large reply costs only the elements that are
//! read.

mod element;
mod writer;

#[cfg(test)]
mod tests;

pub(super) use element::integral;
pub use element::{Element, Kind};
pub(super) use writer::patch_length;
pub use writer::{ArrayWriter, Writer};

use super::reader::{Reader, malformed};
use crate::Result;

/// Maximum nesting depth where this module recurses; MongoDB's servers refuse more too.
pub const DEPTH_MAX: usize = 200;

/// A BSON document, or an array, which is a document named "0", "1" and so on.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    bytes: &'a [u8],
    /// Of the first byte in the frame it came from, for errors.
    offset: usize,
}

impl<'a> Document<'a> {
    /// The empty document's length in bytes.
    pub(super) const BYTES_MIN: i32 = 5;

    /// Takes `bytes` as one whole document.
    ///
    /// # Errors
    /// When the declared length is not `bytes.len()` or the terminating NUL is missing.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::parse_at(bytes, 0)
    }

    #[inline]
    pub(super) fn parse_at(bytes: &'a [u8], offset: usize) -> Result<Self> {
        let declared = Reader::new(bytes, offset).i32("a BSON document")?;
        if declared < Self::BYTES_MIN || declared as usize != bytes.len() {
            let got = format_args!("length {declared} in {} bytes", bytes.len());
            return Err(malformed(offset, "a BSON document's own length", got));
        }
        match bytes.last() {
            Some(0) => Ok(Self { bytes, offset }),
            _ => Err(malformed(offset, "a document ending in NUL", "another byte")),
        }
    }

    /// For a block whose length and terminator [`Element`] has already checked.
    #[inline]
    pub(super) fn checked(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
    }

    /// The whole document, length and terminator included.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Offset in bytes from the start of the frame.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == Self::BYTES_MIN as usize
    }

    /// Its elements in order. The walk ends after the first error.
    #[inline]
    pub fn elements(&self) -> Elements<'a> {
        let inner = self.bytes.get(4..self.bytes.len().saturating_sub(1)).unwrap_or_default();
        Elements { reader: Reader::new(inner, self.offset + 4) }
    }

    /// The first element called `name`. For several fields, one walk over
    /// [`elements`](Self::elements) is cheaper.
    ///
    /// # Errors
    /// When an element before it is malformed.
    pub fn element(&self, name: &str) -> Result<Option<Element<'a>>> {
        for element in self.elements() {
            let element = element?;
            if element.name() == name.as_bytes() {
                return Ok(Some(element));
            }
        }
        Ok(None)
    }

    /// Of an array of documents, the documents; any other element is an error.
    pub fn documents(&self) -> impl Iterator<Item = Result<Document<'a>>> + use<'a> {
        self.elements().map(|element| {
            let element = element?;
            element.document().ok_or_else(|| {
                malformed(element.offset(), "an array of documents", element.kind().name())
            })
        })
    }

    /// Whether `test` holds for any element at any depth of documents and arrays.
    ///
    /// # Errors
    /// When an element walked over is malformed, or nests deeper than [`DEPTH_MAX`].
    pub fn any(&self, test: &mut dyn FnMut(&Element<'a>) -> bool) -> Result<bool> {
        self.any_within(DEPTH_MAX, test)
    }

    fn any_within(&self, depth: usize, test: &mut dyn FnMut(&Element<'a>) -> bool) -> Result<bool> {
        let depth = descend(depth, self.offset)?;
        for element in self.elements() {
            let element = element?;
            if test(&element) {
                return Ok(true);
            }
            if let Some(nested) = element.document().or(element.array())
                && nested.any_within(depth, test)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// One level down from a place that may still go `depth` levels deep.
pub(super) fn descend(depth: usize, offset: usize) -> Result<usize> {
    depth
        .checked_sub(1)
        .ok_or_else(|| malformed(offset, "documents nested at most 200 deep", "one nested deeper"))
}

impl PartialEq for Document<'_> {
    /// Byte for byte, wherever they stand.
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Document<'_> {}

/// A walk over a document's elements.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let element = Element::read(&mut self.reader);
        if element.is_err() {
            self.reader.rest();
        }
        Some(element)
    }
}

impl std::iter::FusedIterator for Elements<'_> {}
