//! One element of a document: name, kind and the value's bytes.

use super::super::reader::{Reader, malformed};
use super::Document;
use crate::Result;

/// The type of a value. The byte values are those of the BSON specification, version 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are BSON's own")]
pub enum Kind {
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Binary = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Bool = 0x08,
    DateTime = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    Code = 0x0D,
    Symbol = 0x0E,
    CodeWithScope = 0x0F,
    Int32 = 0x10,
    Timestamp = 0x11,
    Int64 = 0x12,
    Decimal128 = 0x13,
    MaxKey = 0x7F,
    MinKey = 0xFF,
}

impl Kind {
    #[inline]
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::Double,
            0x02 => Self::String,
            0x03 => Self::Document,
            0x04 => Self::Array,
            0x05 => Self::Binary,
            0x06 => Self::Undefined,
            0x07 => Self::ObjectId,
            0x08 => Self::Bool,
            0x09 => Self::DateTime,
            0x0A => Self::Null,
            0x0B => Self::Regex,
            0x0C => Self::DbPointer,
            0x0D => Self::Code,
            0x0E => Self::Symbol,
            0x0F => Self::CodeWithScope,
            0x10 => Self::Int32,
            0x11 => Self::Timestamp,
            0x12 => Self::Int64,
            0x13 => Self::Decimal128,
            0x7F => Self::MaxKey,
            0xFF => Self::MinKey,
            _ => return None,
        })
    }

    /// The kind's name, for errors and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::String => "string",
            Self::Document => "document",
            Self::Array => "array",
            Self::Binary => "binary",
            Self::Undefined => "undefined",
            Self::ObjectId => "objectId",
            Self::Bool => "bool",
            Self::DateTime => "date",
            Self::Null => "null",
            Self::Regex => "regex",
            Self::DbPointer => "dbPointer",
            Self::Code => "javascript",
            Self::Symbol => "symbol",
            Self::CodeWithScope => "javascriptWithScope",
            Self::Int32 => "int",
            Self::Timestamp => "timestamp",
            Self::Int64 => "long",
            Self::Decimal128 => "decimal",
            Self::MaxKey => "maxKey",
            Self::MinKey => "minKey",
        }
    }
}

/// One element. Its accessors answer `None` when the value is of another kind.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    name: &'a [u8],
    kind: Kind,
    value: &'a [u8],
    offset: usize,
}

impl<'a> Element<'a> {
    /// Reads the element at the reader's place. The value's extent is checked, and, for strings,
    /// documents and arrays, that it ends in NUL; nested elements are not looked at.
    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let start = reader.offset();
        let byte = reader.u8("an element")?;
        let Some(kind) = Kind::from_byte(byte) else {
            let got = format_args!("type byte {byte:#04x}");
            return Err(malformed(start, "a BSON type of version 1.1", got));
        };
        let name = reader.cstring("an element's name")?;
        let offset = reader.offset();
        let value = value(kind, reader)?;
        Ok(Self { name, kind, value, offset })
    }

    /// The name's bytes. BSON asks for UTF-8, which is not checked here: names are compared.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Returns the type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The value's bytes as they stand in the document.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Of the value, in bytes from the start of the frame.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// A string that is valid UTF-8.
    #[inline]
    pub fn str(&self) -> Option<&'a str> {
        match self.kind {
            Kind::String => {
                let text = self.value.get(4..self.value.len().saturating_sub(1))?;
                std::str::from_utf8(text).ok()
            }
            _ => None,
        }
    }

    /// An int32.
    pub fn i32(&self) -> Option<i32> {
        match self.kind {
            Kind::Int32 => self.fixed().map(i32::from_le_bytes),
            _ => None,
        }
    }

    /// An int64.
    pub fn i64(&self) -> Option<i64> {
        match self.kind {
            Kind::Int64 => self.fixed().map(i64::from_le_bytes),
            _ => None,
        }
    }

    /// A double.
    pub fn f64(&self) -> Option<f64> {
        match self.kind {
            Kind::Double => self.fixed().map(f64::from_le_bytes),
            _ => None,
        }
    }

    /// An int32, an int64, or a double without a fraction that fits: drivers and shells write
    /// numbers such as `limit` as any of the three.
    pub fn integer(&self) -> Option<i64> {
        match self.kind {
            Kind::Int32 => self.i32().map(i64::from),
            Kind::Int64 => self.i64(),
            Kind::Double => self.f64().and_then(integral),
            _ => None,
        }
    }

    /// A bool.
    pub fn bool(&self) -> Option<bool> {
        match self.kind {
            Kind::Bool => self.value.first().map(|byte| *byte != 0),
            _ => None,
        }
    }

    /// Whether a server takes the value for true: `true`, or a number other than zero.
    pub fn is_true(&self) -> bool {
        match self.kind {
            Kind::Bool => self.bool() == Some(true),
            Kind::Double => self.f64().is_some_and(|number| number != 0.0),
            Kind::Int32 | Kind::Int64 => self.integer().is_some_and(|number| number != 0),
            _ => false,
        }
    }

    /// A timestamp: seconds in the high half, a counter in the low one, so they order as numbers.
    pub fn timestamp(&self) -> Option<u64> {
        match self.kind {
            Kind::Timestamp => self.fixed().map(u64::from_le_bytes),
            _ => None,
        }
    }

    /// A binary value's subtype and bytes.
    pub fn binary(&self) -> Option<(u8, &'a [u8])> {
        match self.kind {
            Kind::Binary => Some((*self.value.get(4)?, self.value.get(5..)?)),
            _ => None,
        }
    }

    /// An embedded document.
    #[inline]
    pub fn document(&self) -> Option<Document<'a>> {
        (self.kind == Kind::Document).then(|| Document::checked(self.value, self.offset))
    }

    /// An array.
    #[inline]
    pub fn array(&self) -> Option<Document<'a>> {
        (self.kind == Kind::Array).then(|| Document::checked(self.value, self.offset))
    }

    fn fixed<const N: usize>(&self) -> Option<[u8; N]> {
        self.value.first_chunk().copied()
    }
}

/// `number` as an `i64` when that loses nothing.
pub(crate) fn integral(number: f64) -> Option<i64> {
    // 2^63 is a double, i64::MAX is not: the upper bound must be exclusive.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    (fits && number.fract() == 0.0).then_some(number as i64)
}

#[inline]
fn value<'a>(kind: Kind, reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    match kind {
        Kind::Undefined | Kind::Null | Kind::MaxKey | Kind::MinKey => reader.take(0, "nothing"),
        Kind::Bool => reader.take(1, "a bool"),
        Kind::Int32 => reader.take(4, "an int32"),
        Kind::Double | Kind::DateTime | Kind::Timestamp | Kind::Int64 => {
            reader.take(8, "a value of eight bytes")
        }
        Kind::ObjectId => reader.take(12, "an ObjectId"),
        Kind::Decimal128 => reader.take(16, "a decimal128"),
        Kind::String | Kind::Code | Kind::Symbol => {
            let offset = reader.offset();
            nul_terminated(reader.block(1, 4, "a BSON string")?, offset)
        }
        Kind::Document | Kind::Array => {
            let offset = reader.offset();
            nul_terminated(reader.block(Document::BYTES_MIN, 0, "a BSON document")?, offset)
        }
        Kind::Binary => reader.block(0, 5, "a binary value"),
        Kind::DbPointer => reader.block(1, 16, "a DBPointer"),
        // Its own length, an empty string and an empty document: nothing shorter exists.
        Kind::CodeWithScope => reader.block(14, 0, "code with scope"),
        Kind::Regex => regex(reader),
    }
}

fn nul_terminated(bytes: &[u8], offset: usize) -> Result<&[u8]> {
    match bytes.last() {
        Some(0) => Ok(bytes),
        _ => Err(malformed(offset, "a value ending in NUL", "another byte")),
    }
}

/// A regular expression is two cstrings: pattern and options.
fn regex<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let mut ahead = *reader;
    ahead.cstring("a regex pattern")?;
    ahead.cstring("regex options")?;
    reader.take(ahead.offset() - reader.offset(), "a regex")
}
