//! OP_QUERY and OP_REPLY, which today carry only the first handshake of older drivers.

use super::bson::Document;
use super::message::Documents;
use super::reader::Reader;
use crate::Result;

/// An OP_QUERY.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Query flags, not OP_MSG's.
    pub flags: u32,
    /// `database.collection`; a command goes to the collection `$cmd`.
    pub namespace: &'a [u8],
    /// The query, or the command.
    pub query: Document<'a>,
    /// The requested fields.
    pub selector: Option<Document<'a>>,
}

impl<'a> Query<'a> {
    pub(super) fn read(mut reader: Reader<'a>) -> Result<Self> {
        let flags = reader.u32("query flags")?;
        let namespace = reader.cstring("a namespace")?;
        reader.i32("a number to skip")?;
        reader.i32("a number to return")?;
        let query = reader.document()?;
        let selector = match reader.is_empty() {
            true => None,
            false => Some(reader.document()?),
        };
        Ok(Self { flags, namespace, query, selector })
    }

    /// The command and its database, when this is one.
    pub fn command(&self) -> Option<(&'a str, Document<'a>)> {
        let database = self.namespace.strip_suffix(b".$cmd")?;
        let database = std::str::from_utf8(database).ok()?;
        // With a read preference the command is wrapped: {$query: {isMaster: 1}, ...}.
        let wrapped = match self.query.elements().next() {
            Some(Ok(first)) if matches!(first.name(), b"$query" | b"query") => first.document(),
            _ => None,
        };
        Some((database, wrapped.unwrap_or(self.query)))
    }
}

/// An OP_REPLY.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// Response flags: bit 0 cursor not found, bit 1 query failure.
    pub flags: u32,
    /// Zero when nothing more is to be fetched.
    pub cursor_id: i64,
    /// The documents.
    pub documents: Documents<'a>,
}

impl<'a> Reply<'a> {
    pub(super) fn read(mut reader: Reader<'a>) -> Result<Self> {
        let flags = reader.u32("reply flags")?;
        let cursor_id = reader.i64("a cursor id")?;
        reader.i32("where the reply starts")?;
        reader.i32("a number of documents")?;
        Ok(Self { flags, cursor_id, documents: Documents::read(reader)? })
    }
}
