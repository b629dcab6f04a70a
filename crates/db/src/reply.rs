//! Writing replies, in the protocol version of the connection.

use wire::resp::{Version, response};

/// Destination of a command's answer.
pub(crate) struct Reply<'r> {
    /// The bytes to be sent.
    pub(crate) out: &'r mut Vec<u8>,
    /// The client's protocol version.
    pub(crate) version: Version,
    /// Maximum length of `out`, in bytes; the rest is left out.
    pub(crate) end_max: usize,
    /// Something was left out: the answer is no answer.
    pub(crate) is_cut: bool,
}

impl<'r> Reply<'r> {
    /// An answer of any length.
    pub(crate) fn new(out: &'r mut Vec<u8>, version: Version) -> Self {
        Self { out, version, end_max: usize::MAX, is_cut: false }
    }

    /// An answer after which `out` has at most `end_max` bytes.
    pub(crate) fn within(out: &'r mut Vec<u8>, version: Version, end_max: usize) -> Self {
        Self { end_max, ..Self::new(out, version) }
    }

    pub(crate) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        response::write_simple(self.out, text.as_bytes());
    }

    pub(crate) fn error(&mut self, text: &str) {
        response::write_error(self.out, text.as_bytes());
    }

    pub(crate) fn integer(&mut self, value: i64) {
        match value {
            0 => self.out.extend_from_slice(b":0\r\n"),
            1 => self.out.extend_from_slice(b":1\r\n"),
            _ => response::write_integer(self.out, value),
        }
    }

    pub(crate) fn count(&mut self, value: usize) {
        self.integer(value as i64);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.integer(i64::from(value));
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        if self.out.len() + bytes.len() > self.end_max {
            self.is_cut = true;
            return;
        }
        response::write_bulk(self.out, bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    pub(crate) fn null(&mut self) {
        response::write_null(self.out, self.version);
    }

    pub(crate) fn null_array(&mut self) {
        response::write_null_array(self.out, self.version);
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    pub(crate) fn array(&mut self, elements: usize) {
        response::write_array_header(self.out, elements);
    }

    pub(crate) fn map(&mut self, pairs: usize) {
        response::write_map_header(self.out, pairs, self.version);
    }

    pub(crate) fn set(&mut self, elements: usize) {
        response::write_set_header(self.out, elements, self.version);
    }

    pub(crate) fn push(&mut self, elements: usize) {
        response::write_push_header(self.out, elements, self.version);
    }

    /// A text meant for people, which RESP3 marks as such.
    pub(crate) fn verbatim(&mut self, text: &str) {
        match self.version {
            Version::Resp2 => self.text(text),
            Version::Resp3 => {
                let header = format!("={}\r\ntxt:", text.len() + 4);
                self.out.extend_from_slice(header.as_bytes());
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }
}
