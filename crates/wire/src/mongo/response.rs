//! Server replies: decoding replies, and encoding our own.

use super::bson::{Document, Writer, patch_length};
use super::frame::{Body, Frame, Header, opcode};
use super::message::{self, Flags};
use super::reader::malformed;
use crate::Result;

#[cfg(test)]
mod tests;

/// A reply.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The frame's header; `response_to` names the request, or, in a stream, the reply before.
    pub header: Header,
    /// OP_MSG's flags; none for a legacy reply.
    pub flags: Flags,
    /// Came as OP_REPLY.
    pub legacy: bool,
    /// Whether `ok` is true: the command ran, though single writes of it may have failed.
    pub ok: bool,
    /// Why the command failed, when `ok` is not true.
    pub failure: Failure<'a>,
    /// The cursor, when the command opened or continued one.
    pub cursor: Option<Cursor<'a>>,
    /// Some writes failed.
    pub write_errors: bool,
    /// The write concern was not met: the writes happened, and may be rolled back.
    pub write_concern_error: bool,
    /// The time of the operation, as [`super::bson::Element::timestamp`] reads it.
    pub operation_time: Option<u64>,
    /// `$clusterTime`, signed by the server: echo it, never make one.
    pub cluster_time: Option<Document<'a>>,
    /// The whole reply.
    pub body: Document<'a>,
}

/// Why a command failed. Empty, or zero, where the server says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failure<'a> {
    /// The number, for example 26.
    pub code: i64,
    /// The number's name, for example `NamespaceNotFound`.
    pub code_name: &'a str,
    /// The message text.
    pub message: &'a str,
}

/// A cursor's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor<'a> {
    /// Zero when this batch is the last.
    pub id: i64,
    /// `database.collection`.
    pub namespace: &'a str,
    /// The array of documents.
    pub batch: Document<'a>,
    /// It is `firstBatch`, so the answer to the command itself and not to a `getMore`.
    pub first: bool,
    /// Some shards did not answer.
    pub partial_results: bool,
}

impl<'a> Cursor<'a> {
    /// The batch's documents.
    pub fn documents(&self) -> impl Iterator<Item = Result<Document<'a>>> + use<'a> {
        self.batch.documents()
    }

    /// The batch's first document.
    ///
    /// # Errors
    /// When the batch is malformed.
    pub fn document_first(&self) -> Result<Option<Document<'a>>> {
        self.documents().next().transpose()
    }

    /// Returns the number of documents in the batch; walks all of it.
    ///
    /// # Errors
    /// When the batch is malformed.
    pub fn document_count(&self) -> Result<usize> {
        self.documents().try_fold(0, |count, document| document.map(|_| count + 1))
    }
}

impl<'a> Response<'a> {
    /// Reads the frame's reply. `None` when the frame is not one: inflate a compressed frame first.
    ///
    /// # Errors
    /// When the reply's body, or its cursor, is malformed.
    pub fn parse(frame: &Frame<'a>) -> Result<Option<Self>> {
        let (flags, legacy, body) = match frame.body() {
            Body::Msg(message) => (message.flags(), false, Some(message.body())),
            Body::Reply(reply) => (Flags::default(), true, reply.documents.clone().next()),
            Body::Compressed(_) | Body::Query(_) | Body::Opaque => return Ok(None),
        };
        let Some(body) = body else {
            return Err(malformed(0, "a reply of one document", "none"));
        };
        let mut response = Self {
            header: frame.header(),
            flags,
            legacy,
            ok: false,
            failure: Failure::default(),
            cursor: None,
            write_errors: false,
            write_concern_error: false,
            operation_time: None,
            cluster_time: None,
            body,
        };
        response.read()?;
        Ok(Some(response))
    }

    fn read(&mut self) -> Result<()> {
        for element in self.body.elements() {
            let element = element?;
            match element.name() {
                b"ok" => self.ok = element.is_true(),
                b"cursor" => self.cursor = element.document().map(cursor).transpose()?.flatten(),
                b"code" => self.failure.code = element.integer().unwrap_or_default(),
                b"codeName" => self.failure.code_name = element.str().unwrap_or_default(),
                b"errmsg" => self.failure.message = element.str().unwrap_or_default(),
                b"writeErrors" => {
                    self.write_errors = element.array().is_some_and(|errors| !errors.is_empty());
                }
                // bulkWrite counts its errors; their texts are in its cursor.
                b"nErrors" => self.write_errors |= element.is_true(),
                b"writeConcernError" => self.write_concern_error = true,
                b"operationTime" => self.operation_time = element.timestamp(),
                b"$clusterTime" => self.cluster_time = element.document(),
                _ => {}
            }
        }
        Ok(())
    }
}

/// `None` when the document has no batch, so is no cursor of this protocol.
fn cursor(document: Document<'_>) -> Result<Option<Cursor<'_>>> {
    let mut batch = None;
    let (mut id, mut namespace, mut first, mut partial_results) = (None, "", false, false);
    for element in document.elements() {
        let element = element?;
        match element.name() {
            b"firstBatch" => (batch, first) = (element.array(), true),
            b"nextBatch" => batch = element.array(),
            b"id" => id = element.integer(),
            b"ns" => namespace = element.str().unwrap_or_default(),
            b"partialResultsReturned" => partial_results = element.is_true(),
            _ => {}
        }
    }
    Ok(batch.zip(id).map(|(batch, id)| Cursor { id, namespace, batch, first, partial_results }))
}

/// Appends an OP_MSG reply whose body is `body`, the bytes of a whole document.
pub fn reply(out: &mut Vec<u8>, request_id: i32, response_to: i32, body: &[u8]) {
    message::write(out, request_id, response_to, body);
}

/// Appends an OP_REPLY of one document, the answer to a legacy OP_QUERY.
pub fn legacy_reply(out: &mut Vec<u8>, request_id: i32, response_to: i32, body: &[u8]) {
    let start = out.len();
    let header = Header { length: 0, request_id, response_to, opcode: opcode::REPLY };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&LEGACY_HEAD);
    out.extend_from_slice(body);
    patch_length(out, start);
}

/// Flags "await capable", which servers have always set; no cursor; from zero; one document.
const LEGACY_HEAD: [u8; 20] = [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

/// Appends an OP_MSG reply saying that the command failed.
pub fn error(
    out: &mut Vec<u8>,
    request_id: i32,
    response_to: i32,
    code: i32,
    code_name: &str,
    message: &str,
) {
    let mut body = Vec::new();
    error_body(&mut body, code, code_name, message);
    reply(out, request_id, response_to, &body);
}

/// Appends the document that says that a command failed.
pub fn error_body(out: &mut Vec<u8>, code: i32, code_name: &str, message: &str) {
    Writer::write(out, |body| {
        body.f64("ok", 0.0);
        body.str("errmsg", message);
        body.i32("code", code);
        body.str("codeName", code_name);
    });
}
