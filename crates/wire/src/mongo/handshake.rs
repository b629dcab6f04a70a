//! `hello`: topology information for drivers, and rewriting it.
//!
//! A driver that learns the members' own addresses connects to them and bypasses the cache, so the
//! addresses in a reply are rewritten. Everything else is forwarded unchanged.

use super::bson::{Document, Element, Writer, patch_length};
use super::frame::{Body, Frame, HEADER_BYTES};
use super::legacy::{Query, Reply};
use super::reader::malformed;
use crate::Result;

#[cfg(test)]
mod tests;

/// Handling of the compressors that a client offers and a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// They are forwarded.
    Keep,
    /// They are removed, so both ends use no compression.
    Strip,
}

/// The compressors in a `hello` or its reply, by name; empty when there is no such field.
///
/// # Errors
/// When the document is malformed before the field.
pub fn compressors<'a>(hello: &Document<'a>) -> Result<impl Iterator<Item = &'a str> + use<'a>> {
    let array = hello.element("compression")?.and_then(|element| element.array());
    let elements = array.into_iter().flat_map(|array| array.elements());
    Ok(elements.filter_map(|element| element.ok()?.str()))
}

/// Appends the frame of a `hello` or of its reply to `out`, rewritten: `address` gives each
/// member's address (`host:port`) a new one, or `None` to keep it. A checksum is dropped, since it
/// would no longer be true.
///
/// # Errors
/// When the frame is neither OP_MSG, OP_QUERY nor OP_REPLY, or its body is malformed; `out` is then
/// unchanged.
pub fn rewrite(
    frame: &Frame<'_>,
    address: &dyn Fn(&str) -> Option<String>,
    compression: Compression,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (before, document, after) = split(frame)?;
    let start = out.len();
    out.extend_from_slice(before);
    if let Body::Msg(message) = frame.body() {
        // Flags, then the byte for a section of kind 0; kind-1 sections no hello has.
        out.extend_from_slice(&message.flags().without_checksum().bits().to_le_bytes());
        out.push(0);
    }
    let mut rewritten = Ok(());
    Writer::write(out, |writer| {
        rewritten = fields(&document, address, compression, writer);
    });
    if rewritten.is_err() {
        out.truncate(start);
        return rewritten;
    }
    out.extend_from_slice(after);
    if let Some(frame) = out.get_mut(start..) {
        patch_length(frame, 0);
    }
    Ok(())
}

/// Splits a message into its document and the bytes before and after it.
fn split<'a>(frame: &Frame<'a>) -> Result<(&'a [u8], Document<'a>, &'a [u8])> {
    let (document, is_message) = match frame.body() {
        Body::Msg(message) => (Some(message.body()), true),
        Body::Query(Query { query, .. }) => (Some(*query), false),
        Body::Reply(Reply { documents, .. }) => (documents.clone().next(), false),
        Body::Compressed(_) | Body::Opaque => (None, false),
    };
    let Some(document) = document else {
        return Err(malformed(0, "an OP_MSG, OP_QUERY or OP_REPLY with a document", "none"));
    };
    let bytes = frame.bytes();
    let end = document.offset() + document.bytes().len();
    Ok(match is_message {
        true => (bytes.get(..HEADER_BYTES).unwrap_or_default(), document, &[]),
        false => {
            let before = bytes.get(..document.offset()).unwrap_or_default();
            (before, document, bytes.get(end..).unwrap_or_default())
        }
    })
}

fn fields(
    document: &Document<'_>,
    address: &dyn Fn(&str) -> Option<String>,
    compression: Compression,
    writer: &mut Writer<'_>,
) -> Result<()> {
    for element in document.elements() {
        let element = element?;
        match (element.name(), element.array(), element.str()) {
            (b"hosts" | b"passives" | b"arbiters", Some(members), _) => {
                addresses(&element, &members, address, writer)?;
            }
            (b"me" | b"primary", _, Some(member)) => match address(member) {
                Some(new) => writer.str(field_name(&element), &new),
                None => writer.element(&element),
            },
            (b"compression", ..) if compression == Compression::Strip => {}
            _ => writer.element(&element),
        }
    }
    Ok(())
}

fn addresses(
    element: &Element<'_>,
    members: &Document<'_>,
    address: &dyn Fn(&str) -> Option<String>,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let mut walked = Ok(());
    writer.array(field_name(element), |items| {
        for member in members.elements() {
            match member {
                Ok(member) => match member.str().and_then(address) {
                    Some(new) => items.str(&new),
                    None => items.push(|writer, name| writer.value(name, &member)),
                },
                Err(error) => walked = Err(error),
            }
        }
    });
    walked
}

/// The names rewritten are ASCII, so this never falls back.
fn field_name<'a>(element: &Element<'a>) -> &'a str {
    std::str::from_utf8(element.name()).unwrap_or_default()
}
