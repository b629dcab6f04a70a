//! OP_MSG: flags, then sections, then perhaps a checksum.

use super::bson::{Document, patch_length};
use super::frame::{HEADER_BYTES, Header, opcode};
use super::reader::{Reader, malformed};
use crate::Result;

/// OP_MSG's flag bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u32);

impl Flags {
    const CHECKSUM_PRESENT: u32 = 1;
    const MORE_TO_COME: u32 = 1 << 1;
    const EXHAUST_ALLOWED: u32 = 1 << 16;
    /// Bits of the low half a receiver must understand; of the high half it may ignore any.
    const REQUIRED_UNKNOWN: u32 = 0xFFFF & !(Self::CHECKSUM_PRESENT | Self::MORE_TO_COME);

    /// As they stand in the frame.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The frame ends in a CRC-32C of all before it.
    pub fn checksum_present(self) -> bool {
        self.0 & Self::CHECKSUM_PRESENT != 0
    }

    /// In a request: no reply will ever come. In a reply: another reply follows unasked.
    pub fn more_to_come(self) -> bool {
        self.0 & Self::MORE_TO_COME != 0
    }

    /// The client can take a stream of replies.
    pub fn exhaust_allowed(self) -> bool {
        self.0 & Self::EXHAUST_ALLOWED != 0
    }

    /// The same without a checksum, for a frame rewritten without one.
    pub(super) fn without_checksum(self) -> Self {
        Self(self.0 & !Self::CHECKSUM_PRESENT)
    }
}

/// An OP_MSG whose sections have been checked.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    flags: Flags,
    body: Document<'a>,
    sections: Reader<'a>,
}

impl<'a> Message<'a> {
    /// Reads what follows the header; `frame` is the whole frame, for the checksum.
    pub(super) fn read(mut reader: Reader<'a>, frame: &'a [u8]) -> Result<Self> {
        let flags = Flags(reader.u32("flag bits")?);
        let unknown = flags.bits() & Flags::REQUIRED_UNKNOWN;
        if unknown != 0 {
            let got = format_args!("flag bits {unknown:#06x}");
            return Err(malformed(HEADER_BYTES, "no unknown flag in the low 16 bits", got));
        }
        let sections = match flags.checksum_present() {
            true => without_checksum(reader, frame)?,
            false => reader,
        };
        let body = check(sections)?;
        Ok(Self { flags, body, sections })
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The kind-0 section: the command, or the reply.
    #[inline]
    pub fn body(&self) -> Document<'a> {
        self.body
    }

    /// The kind-1 sections in order.
    pub fn sequences(&self) -> Sequences<'a> {
        Sequences { reader: self.sections }
    }
}

/// Appends an OP_MSG without flags whose only section is `body`, the bytes of a whole document.
/// With a `response_to` of zero it is a request.
pub fn write(out: &mut Vec<u8>, request_id: i32, response_to: i32, body: &[u8]) {
    let start = out.len();
    let header = Header { length: 0, request_id, response_to, opcode: opcode::MSG };
    out.extend_from_slice(&header.encode());
    // No flags, then a section of kind 0.
    out.extend_from_slice(&[0; 5]);
    out.extend_from_slice(body);
    patch_length(out, start);
}

/// Checks the checksum and returns the reader of what stands before it.
fn without_checksum<'a>(mut reader: Reader<'a>, frame: &'a [u8]) -> Result<Reader<'a>> {
    let offset = reader.offset();
    let rest = reader.rest();
    let (Some((covered, declared)), Some((sections, _))) =
        (frame.split_last_chunk::<4>(), rest.split_last_chunk::<4>())
    else {
        return Err(malformed(offset, "a checksum", "the end of the frame"));
    };
    let declared = u32::from_le_bytes(*declared);
    let computed = crc32c::crc32c(covered);
    if declared != computed {
        let got = format_args!("{declared:#010x} where the frame has {computed:#010x}");
        return Err(malformed(covered.len(), "the frame's CRC-32C", got));
    }
    Ok(Reader::new(sections, offset))
}

/// Walks every section once, so that later walks cannot fail, and returns the one body.
fn check(mut reader: Reader<'_>) -> Result<Document<'_>> {
    let mut body = None;
    while !reader.is_empty() {
        let offset = reader.offset();
        match Section::read(&mut reader)? {
            Section::Body(document) if body.is_none() => body = Some(document),
            Section::Body(_) => {
                return Err(malformed(offset, "exactly one kind-0 section", "another"));
            }
            Section::Sequence(sequence) => sequence.documents.check()?,
        }
    }
    body.ok_or_else(|| malformed(reader.offset(), "exactly one kind-0 section", "none"))
}

enum Section<'a> {
    Body(Document<'a>),
    Sequence(Sequence<'a>),
}

impl<'a> Section<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let offset = reader.offset();
        match reader.u8("a section's kind")? {
            0 => Ok(Self::Body(reader.document()?)),
            1 => {
                let offset = reader.offset();
                let mut section = Reader::new(reader.block(5, 0, "a kind-1 section")?, offset);
                section.i32("a section's length")?;
                let identifier = section.cstring("a section's identifier")?;
                Ok(Self::Sequence(Sequence {
                    identifier,
                    documents: Documents { reader: section },
                }))
            }
            kind => Err(malformed(offset, "section kind 0 or 1", format_args!("{kind}"))),
        }
    }
}

/// A kind-1 section: documents standing one behind the other.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    identifier: &'a [u8],
    documents: Documents<'a>,
}

impl<'a> Sequence<'a> {
    /// The command's field it stands for, for example `documents`.
    pub fn identifier(&self) -> &'a [u8] {
        self.identifier
    }

    /// Its documents.
    pub fn documents(&self) -> Documents<'a> {
        self.documents
    }
}

/// A walk over kind-1 sections.
#[derive(Debug, Clone, Copy)]
pub struct Sequences<'a> {
    reader: Reader<'a>,
}

impl Sequences<'_> {
    /// Of a request that has no kind-1 sections.
    pub(super) fn none() -> Self {
        Self { reader: Reader::new(&[], 0) }
    }
}

impl<'a> Iterator for Sequences<'a> {
    type Item = Sequence<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.reader.is_empty() {
            // The frame's decoder has checked every section, so nothing fails here.
            if let Section::Sequence(sequence) = Section::read(&mut self.reader).ok()? {
                return Some(sequence);
            }
        }
        None
    }
}

/// Documents standing one behind the other, checked when their frame was.
#[derive(Debug, Clone, Copy)]
pub struct Documents<'a> {
    reader: Reader<'a>,
}

impl<'a> Documents<'a> {
    /// All the reader holds, once documents are known to fill it exactly.
    pub(super) fn read(reader: Reader<'a>) -> Result<Self> {
        let documents = Self { reader };
        documents.check()?;
        Ok(documents)
    }

    fn check(&self) -> Result<()> {
        let mut reader = self.reader;
        while !reader.is_empty() {
            reader.document()?;
        }
        Ok(())
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = Document<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        self.reader.document().ok()
    }
}
