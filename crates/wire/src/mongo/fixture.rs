//! Frames and documents for the tests beside the code.

use super::bson::{Document, Writer, patch_length};
use super::frame::{Frame, Header, Limits, decode, opcode};
use super::request::Request;

/// The bytes of the document that `fill` describes.
pub(super) fn document(fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::write(&mut bytes, fill);
    bytes
}

/// `{name: value}`.
pub(super) fn pair(name: &str, value: i32) -> Vec<u8> {
    document(|document| document.i32(name, value))
}

/// A section of kind 0.
pub(super) fn body(document: &[u8]) -> Vec<u8> {
    [&[0], document].concat()
}

/// A section of kind 1.
pub(super) fn sequence(identifier: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut section = vec![1, 0, 0, 0, 0];
    section.extend_from_slice(identifier.as_bytes());
    section.push(0);
    section.extend(documents.concat());
    patch_length(&mut section[1..], 0);
    section
}

/// A frame of any opcode.
pub(super) fn frame(opcode: i32, payload: &[u8]) -> Vec<u8> {
    let header = Header { length: 16 + payload.len(), request_id: 7, response_to: 0, opcode };
    [&header.encode(), payload].concat()
}

/// An OP_MSG of these sections.
pub(super) fn message(flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    frame(opcode::MSG, &[&flags.to_le_bytes(), &*sections.concat()].concat())
}

/// A command on the database `shop`, its `$db` last as drivers put it.
pub(super) fn command(fill: impl FnOnce(&mut Writer<'_>), sequences: &[Vec<u8>]) -> Vec<u8> {
    let command = document(|document| {
        fill(document);
        document.str("$db", "shop");
    });
    message(0, &[vec![body(&command)], sequences.to_vec()].concat())
}

/// The one frame in `bytes`.
pub(super) fn decoded(bytes: &[u8]) -> Frame<'_> {
    let (frame, length) = decode(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    frame
}

/// The request in `bytes`.
pub(super) fn request(bytes: &[u8]) -> Request<'_> {
    Request::parse(&decoded(bytes)).unwrap().unwrap()
}

/// `bytes` as a document.
pub(super) fn parsed(bytes: &[u8]) -> Document<'_> {
    Document::parse(bytes).unwrap()
}
