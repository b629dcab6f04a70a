//! Reads and writes replies.
//!
//! Reading is lazy: a [`Frame`] is complete, and each method reads only the bytes it needs. A
//! scalar whose text does not match its kind (`:abc`) reads as `None`; it can still be forwarded.

use std::io::Write;

use super::length::{self, Length};
use super::{Frame, Kind, Limits, frame};

/// Sent to a client that is one too many, before its connection is closed.
pub const CLIENTS_MAX_REACHED: &[u8] = b"-ERR max number of clients reached\r\n";

/// Protocol version of a connection: RESP2 until `HELLO 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Version {
    /// Five types; null is `$-1` or `*-1`.
    #[default]
    Resp2,
    /// The types since Redis 6.
    Resp3,
}

impl<'a> Frame<'a> {
    /// `_`, `$-1` or `*-1`.
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null || matches!(self.value_bytes(), b"$-1\r\n" | b"*-1\r\n")
    }

    /// The error text without type byte and line end, for `-` and `!`.
    pub fn error(&self) -> Option<&'a [u8]> {
        match self.kind() {
            Kind::Error => self.line(),
            Kind::BulkError => self.payload(),
            _ => None,
        }
    }

    /// Whether the server refused the request.
    pub fn is_error(&self) -> bool {
        matches!(self.kind(), Kind::Error | Kind::BulkError)
    }

    /// The number after `:`.
    pub fn integer(&self) -> Option<i64> {
        if self.kind() != Kind::Integer {
            return None;
        }
        std::str::from_utf8(self.line()?).ok()?.parse().ok()
    }

    /// The number after `,`, including `inf`, `-inf` and `nan`.
    pub fn double(&self) -> Option<f64> {
        if self.kind() != Kind::Double {
            return None;
        }
        std::str::from_utf8(self.line()?).ok()?.parse().ok()
    }

    /// The value after `#`.
    pub fn boolean(&self) -> Option<bool> {
        match self.value_bytes() {
            b"#t\r\n" => Some(true),
            b"#f\r\n" => Some(false),
            _ => None,
        }
    }

    /// The header line without type byte and line end: all of a simple string, an error, an
    /// integer, a double or a big number.
    pub fn line(&self) -> Option<&'a [u8]> {
        let line = self.value_bytes().get(1..)?;
        line.get(..memchr::memmem::find(line, b"\r\n")?)
    }

    /// The content of a bulk string, a bulk error or a verbatim string (there with its format,
    /// `txt:`). `None` for anything else, for null and for a streamed string, which is in pieces:
    /// see [`chunks`](Self::chunks).
    pub fn payload(&self) -> Option<&'a [u8]> {
        if !matches!(self.kind(), Kind::Bulk | Kind::BulkError | Kind::Verbatim) {
            return None;
        }
        let (payload, _) = sized(self.value_bytes())?;
        Some(payload)
    }

    /// The pieces of a streamed string (`$?`) in order; nothing for any other reply.
    pub fn chunks(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.value_bytes().strip_prefix(b"$?\r\n").unwrap_or_default();
        std::iter::from_fn(move || {
            let (chunk, behind) = sized(rest).filter(|(chunk, _)| !chunk.is_empty())?;
            rest = behind;
            Some(chunk)
        })
    }

    /// The elements of an aggregate, each with its own bytes; alternating keys and values for a
    /// map. Empty for any other reply.
    pub fn elements(&self) -> Elements<'a> {
        let header = self.value_bytes().get(1..).filter(|_| self.kind().is_aggregate());
        let rest = header.and_then(|header| {
            let (_, header_bytes) = length::read(header);
            header.get(header_bytes..)
        });
        Elements { rest: rest.unwrap_or_default() }
    }
}

/// The elements of one aggregate in order.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        // The aggregate was scanned under the caller's limits, so its parts need none. The elements
        // end with the bytes, or with the end mark of a streamed aggregate.
        const UNLIMITED: Limits = Limits {
            request_bytes_max: usize::MAX,
            bulk_bytes_max: usize::MAX,
            arguments_max: usize::MAX,
            inline_bytes_max: usize::MAX,
            reply_bytes_max: usize::MAX,
            nesting_max: usize::MAX,
            before_login: false,
        };
        let (element, taken) = frame::decode(self.rest, &UNLIMITED).ok()??;
        self.rest = self.rest.get(taken..)?;
        Some(element)
    }
}

/// Splits `<type byte><length>\r\n<payload>\r\n` off the front.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = bytes.get(1..)?;
    let (Length::Value(length), header_bytes) = length::read(header) else {
        return None;
    };
    let body = header.get(header_bytes..)?;
    let (payload, rest) = body.split_at_checked(usize::try_from(length).ok()?)?;
    Some((payload, rest.get(2..)?))
}

/// Appends a simple string. CR and LF become blanks, because they would end the line early.
pub fn write_simple(out: &mut Vec<u8>, text: &[u8]) {
    write_line(out, b'+', text);
}

/// Appends an error: a code in capitals, a blank, a sentence. CR and LF become blanks.
pub fn write_error(out: &mut Vec<u8>, text: &[u8]) {
    write_line(out, b'-', text);
}

/// Appends an integer.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    write_display(out, b':', value);
}

/// Appends a bulk string.
pub fn write_bulk(out: &mut Vec<u8>, payload: &[u8]) {
    length::write(out, b'$', payload.len());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends null in place of a string.
pub fn write_null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Appends null in place of an array.
pub fn write_null_array(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"*-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Appends the header of an array; the caller appends its elements.
pub fn write_array_header(out: &mut Vec<u8>, elements: usize) {
    length::write(out, b'*', elements);
}

/// Appends the header of a map; the caller appends twice as many elements, alternating keys and
/// values.
pub fn write_map_header(out: &mut Vec<u8>, pairs: usize, version: Version) {
    match version {
        Version::Resp2 => length::write(out, b'*', pairs * 2),
        Version::Resp3 => length::write(out, b'%', pairs),
    }
}

/// Appends the header of a set; the caller appends its elements.
pub fn write_set_header(out: &mut Vec<u8>, elements: usize, version: Version) {
    match version {
        Version::Resp2 => length::write(out, b'*', elements),
        Version::Resp3 => length::write(out, b'~', elements),
    }
}

/// Appends the header of a message sent without a request; in RESP2 a plain array.
pub fn write_push_header(out: &mut Vec<u8>, elements: usize, version: Version) {
    match version {
        Version::Resp2 => length::write(out, b'*', elements),
        Version::Resp3 => length::write(out, b'>', elements),
    }
}

/// Appends a boolean; in RESP2 that is 1 or 0.
pub fn write_boolean(out: &mut Vec<u8>, value: bool, version: Version) {
    out.extend_from_slice(match (version, value) {
        (Version::Resp2, true) => b":1\r\n",
        (Version::Resp2, false) => b":0\r\n",
        (Version::Resp3, true) => b"#t\r\n",
        (Version::Resp3, false) => b"#f\r\n",
    });
}

/// Appends a double in the shortest form that reads back the same; in RESP2 as a bulk string.
pub fn write_double(out: &mut Vec<u8>, value: f64, version: Version) {
    // Rust writes `NaN`, the protocol has `nan`; `inf` and `-inf` are the same.
    let text = if value.is_nan() { "nan".to_owned() } else { value.to_string() };
    match version {
        Version::Resp2 => write_bulk(out, text.as_bytes()),
        Version::Resp3 => write_line(out, b',', text.as_bytes()),
    }
}

fn write_line(out: &mut Vec<u8>, type_byte: u8, text: &[u8]) {
    out.push(type_byte);
    out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

fn write_display(out: &mut Vec<u8>, type_byte: u8, value: i64) {
    out.push(type_byte);
    // Writing to a vector does not fail.
    let _ = write!(out, "{value}\r\n");
}

#[cfg(test)]
mod tests;
