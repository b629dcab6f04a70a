//! Replies of a server, cut out of the stream with their original bytes.

use super::{Limits, PROTOCOL, Scanner};
use crate::{Error, Result};

/// The type that a type byte stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `+`
    Simple,
    /// `-`
    Error,
    /// `:`
    Integer,
    /// `$`, also RESP2's null `$-1` and the streamed string `$?`
    Bulk,
    /// `*`, also RESP2's null array `*-1`
    Array,
    /// `_`
    Null,
    /// `#`
    Boolean,
    /// `,`
    Double,
    /// `(`
    BigNumber,
    /// `!`
    BulkError,
    /// `=`
    Verbatim,
    /// `%`
    Map,
    /// `~`
    Set,
    /// `|`, annotates the value after it
    Attribute,
    /// `>`, sent without a request
    Push,
}

impl Kind {
    /// The kind a type byte announces.
    pub fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            b'+' => Self::Simple,
            b'-' => Self::Error,
            b':' => Self::Integer,
            b'$' => Self::Bulk,
            b'*' => Self::Array,
            b'_' => Self::Null,
            b'#' => Self::Boolean,
            b',' => Self::Double,
            b'(' => Self::BigNumber,
            b'!' => Self::BulkError,
            b'=' => Self::Verbatim,
            b'%' => Self::Map,
            b'~' => Self::Set,
            b'|' => Self::Attribute,
            b'>' => Self::Push,
            _ => return None,
        })
    }

    /// Whether elements follow the header.
    pub fn is_aggregate(self) -> bool {
        matches!(self, Self::Array | Self::Map | Self::Set | Self::Attribute | Self::Push)
    }

    /// Whether elements are alternating keys and values.
    pub fn has_pairs(self) -> bool {
        matches!(self, Self::Map | Self::Attribute)
    }

    /// Whether the header line contains a length.
    pub(super) fn has_length(self) -> bool {
        self.is_aggregate() || matches!(self, Self::Bulk | Self::BulkError | Self::Verbatim)
    }
}

/// One whole reply, or one element of one, borrowed from the buffer it was decoded from.
/// [`response`](super::response) reads its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    value_offset: usize,
    kind: Kind,
}

impl<'a> Frame<'a> {
    /// The original bytes of the reply, attributes included, to be forwarded byte for byte.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the type of the reply without its attributes.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The reply without the attributes before it.
    pub fn value_bytes(&self) -> &'a [u8] {
        self.bytes.get(self.value_offset..).unwrap_or_default()
    }
}

/// Decodes the first reply of `bytes`: the reply and how many bytes it took, or `None` if more
/// bytes are needed.
///
/// Every call starts at the first byte. A caller that reads a large reply in many chunks keeps a
/// [`Decoder`], or finds the end with a [`Scanner`].
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<(Frame<'a>, usize)>> {
    Decoder::new(limits).decode(bytes)
}

/// A decoder that remembers its position, so that a reply in many chunks takes one pass over its
/// bytes, not one pass per chunk.
#[derive(Debug, Clone)]
pub struct Decoder {
    scanner: Scanner,
    /// Bytes of the reply that the scanner has seen.
    scanned: usize,
    reply_bytes_max: usize,
}

impl Decoder {
    /// A decoder at the start of a reply.
    pub fn new(limits: &Limits) -> Self {
        let reply_bytes_max = limits.reply_bytes_max;
        Self { scanner: Scanner::new(limits), scanned: 0, reply_bytes_max }
    }

    /// Like [`decode`]. After `None`, call again with the same bytes and more after them; after a
    /// reply, with the bytes after those taken. After an error the connection cannot be used.
    pub fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>> {
        let progress = self.scanner.advance(bytes.get(self.scanned..).unwrap_or_default())?;
        let taken = self.scanned + progress.consumed;
        let reply_bytes = taken.saturating_add(self.scanner.bytes_due());
        if reply_bytes > self.reply_bytes_max {
            return Err(Error::TooLarge {
                protocol: PROTOCOL,
                offset: 0,
                what: "reply bytes",
                limit: self.reply_bytes_max as u64,
                got: reply_bytes as u64,
            });
        }
        let (true, Some(kind)) = (progress.complete, progress.kind) else {
            self.scanned = taken;
            return Ok(None);
        };
        self.scanned = 0;
        let bytes = bytes.get(..taken).unwrap_or_default();
        Ok(Some((Frame { bytes, value_offset: self.scanner.value_offset(), kind }, taken)))
    }
}

#[cfg(test)]
mod tests;
