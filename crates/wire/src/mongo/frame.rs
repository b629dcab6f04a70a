//! Cuts a byte stream into frames.
//!
//! Every frame begins with sixteen bytes, all little-endian:
//! length (itself included), request id, the id it answers, opcode.

use super::compressed::Compressed;
use super::legacy::{Query, Reply};
use super::message::Message;
use super::reader::{PROTOCOL, Reader, malformed};
use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// Opcodes whose body is read here.
pub mod opcode {
    /// A reply to the legacy handshake.
    pub const REPLY: i32 = 1;
    /// The legacy handshake (and, before MongoDB 5.1, every find).
    pub const QUERY: i32 = 2004;
    /// Another frame, compressed.
    pub const COMPRESSED: i32 = 2012;
    /// Every command and reply since MongoDB 3.6.
    pub const MSG: i32 = 2013;
}

/// Bytes of a frame before its body.
pub const HEADER_BYTES: usize = 16;

/// Limits on the memory that one peer may make this codec hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, header included. The default is the servers' own `maxMessageSizeBytes`.
    pub frame_bytes_max: usize,
    /// Longest frame that a compressed one may inflate to, header included.
    pub inflated_bytes_max: usize,
}

impl Limits {
    /// The default limits, with another one for frames if it is given.
    #[must_use]
    pub fn of_frames(bytes_max: Option<usize>) -> Self {
        let default = Self::default();
        bytes_max.map_or(default, |max| Self { frame_bytes_max: max, inflated_bytes_max: max })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes_max: 48_000_000, inflated_bytes_max: 48_000_000 }
    }
}

/// The sixteen bytes before every body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Of the whole frame in bytes, header included.
    pub length: usize,
    /// The sender's number for this frame.
    pub request_id: i32,
    /// In a reply, the request's number.
    pub response_to: i32,
    /// The type of the body; see [`opcode`].
    pub opcode: i32,
}

impl Header {
    /// The header's sixteen bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER_BYTES];
        let fields = [
            length.to_le_bytes(),
            self.request_id.to_le_bytes(),
            self.response_to.to_le_bytes(),
            self.opcode.to_le_bytes(),
        ];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field);
        }
        bytes
    }
}

/// One frame, borrowed from the buffer it arrived in.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    header: Header,
    body: Body<'a>,
}

/// The body of a frame.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// OP_MSG.
    Msg(Message<'a>),
    /// OP_COMPRESSED: inflate it, then decode what comes out.
    Compressed(Compressed<'a>),
    /// OP_QUERY.
    Query(Query<'a>),
    /// OP_REPLY.
    Reply(Reply<'a>),
    /// Any other opcode: pass [`Frame::bytes`] on. From a client it may be a legacy OP_INSERT,
    /// OP_UPDATE or OP_DELETE, so it counts as a write to everything.
    Opaque,
}

impl<'a> Frame<'a> {
    /// The frame exactly as it arrived.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its header.
    #[inline]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Its body.
    #[inline]
    pub fn body(&self) -> &Body<'a> {
        &self.body
    }
}

/// The first frame of `bytes` and its length, or `None` while the frame is not all there.
///
/// # Errors
/// When the frame breaks the protocol or passes a limit; the stream cannot be read on after that.
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<(Frame<'a>, usize)>> {
    let Some(length) = frame_bytes(bytes, limits)? else {
        return Ok(None);
    };
    let Some(bytes) = bytes.get(..length) else {
        return Ok(None);
    };
    let mut reader = Reader::new(bytes, 0);
    reader.i32("a frame's length")?;
    let header = Header {
        length,
        request_id: reader.i32("a request id")?,
        response_to: reader.i32("a response id")?,
        opcode: reader.i32("an opcode")?,
    };
    let body = match header.opcode {
        opcode::MSG => Body::Msg(Message::read(reader, bytes)?),
        opcode::COMPRESSED => Body::Compressed(Compressed::read(reader, header)?),
        opcode::QUERY => Body::Query(Query::read(reader)?),
        opcode::REPLY => Body::Reply(Reply::read(reader)?),
        _ => Body::Opaque,
    };
    Ok(Some((Frame { bytes, header, body }, length)))
}

/// Returns the command at the start of an incomplete frame as a frame without the documents after
/// it. `None` if the frame is no OP_MSG, or its command is not first or not complete.
pub fn beginning(bytes: &[u8]) -> Option<Vec<u8>> {
    const BODY: usize = HEADER_BYTES + 5;
    let kind = bytes.get(BODY - 1)?;
    let opcode: [u8; 4] = bytes.get(12..HEADER_BYTES)?.try_into().ok()?;
    if i32::from_le_bytes(opcode) != opcode::MSG || *kind != 0 {
        return None;
    }
    let length = usize::try_from(i32::from_le_bytes(*bytes.get(BODY..)?.first_chunk()?)).ok()?;
    let mut frame = bytes.get(..BODY.checked_add(length)?)?.to_vec();
    // A checksum would stand at the end, and covers what is not there.
    const CHECKSUM_PRESENT: u8 = 1;
    if let Some(flags) = frame.get_mut(HEADER_BYTES) {
        *flags &= !CHECKSUM_PRESENT;
    }
    super::bson::patch_length(&mut frame, 0);
    Some(frame)
}

/// The length in bytes of the frame that `bytes` begins with, or `None` while not even the length
/// is there. Enough to stream a large reply that is not stored.
///
/// # Errors
/// When the length is no frame's, or passes the limit.
#[inline]
pub fn frame_bytes(bytes: &[u8], limits: &Limits) -> Result<Option<usize>> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let declared = i32::from_le_bytes(*length);
    let length = usize::try_from(declared).unwrap_or(0);
    if length < HEADER_BYTES {
        return Err(malformed(0, "a frame of at least 16 bytes", format_args!("{declared}")));
    }
    if length > limits.frame_bytes_max {
        return Err(Error::TooLarge {
            protocol: PROTOCOL,
            offset: 0,
            what: "frame bytes",
            limit: limits.frame_bytes_max as u64,
            got: length as u64,
        });
    }
    Ok(Some(length))
}
