//! Frames as far as both filters look into them.

use wire::{
    Error, Result,
    mongo::{
        bson::Document,
        frame::{self, Body, Frame, HEADER_BYTES, Header, Limits},
    },
};

pub(super) fn header(head: &[u8], length: usize) -> Header {
    let field = |at: usize| {
        let bytes = head.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        i32::from_le_bytes(bytes)
    };
    Header { length, request_id: field(4), response_to: field(8), opcode: field(12) }
}

pub(super) fn flags(frame: &[u8]) -> u32 {
    let bytes = frame.get(HEADER_BYTES..).and_then(<[u8]>::first_chunk).copied();
    u32::from_le_bytes(bytes.unwrap_or_default())
}

/// The frame inside a compressed one.
pub(super) fn inflate(frame: &Frame<'_>, limits: &Limits) -> Result<Option<Vec<u8>>> {
    let Body::Compressed(compressed) = frame.body() else { return Ok(None) };
    let mut inflated = Vec::new();
    compressed.inflate(limits, &mut inflated)?;
    Ok(Some(inflated))
}

/// Parses `bytes` as exactly one frame.
pub(super) fn whole<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Frame<'a>> {
    frame::decode(bytes, limits)?.map(|(frame, _)| frame).ok_or_else(|| Error::Malformed {
        protocol: "mongodb",
        offset: bytes.len(),
        expected: "a whole frame",
        got: "its beginning".to_owned(),
    })
}

/// The value a document has for `field`, in canonical form.
pub(super) fn canonical(document: &Document<'_>, field: &str) -> Result<Option<Vec<u8>>> {
    let Some(element) = document.element(field)? else { return Ok(None) };
    let mut key = Vec::new();
    wire::mongo::key::append(&element, &mut key)?;
    Ok(Some(key))
}
