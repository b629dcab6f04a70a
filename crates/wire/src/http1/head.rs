//! The head of a message: first line and headers.

use std::mem::MaybeUninit;

use super::{Framing, Limits, PROTOCOL};
use crate::{Error, Result};

/// Maximum number of headers of a message.
const HEADERS_MAX: usize = 96;
/// Part of a head that an error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Headers of a message, and its length in the stream.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    /// Names as they were sent, and values without surrounding blanks, in their order.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// Length of the head with the empty line that ends it.
    pub bytes: usize,
    /// The minor version: 1, or 0 for HTTP/1.0.
    pub minor: u8,
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Headers.
    pub head: Head<'a>,
    /// How the body ends.
    pub framing: Framing,
}

/// The head of a reply.
#[derive(Debug, Clone)]
pub struct ReplyHead<'a> {
    /// The status.
    pub status: u16,
    /// Headers.
    pub head: Head<'a>,
    /// How the body ends, if the request was not `HEAD`.
    pub framing: Framing,
}

impl<'a> Head<'a> {
    /// The values of the headers of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.headers.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| *value)
    }

    /// The value of the header of this name; `None` if there is none, or more than one.
    pub fn one(&self, name: &str) -> Option<&'a [u8]> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// Whether a list in headers of this name contains `word`.
    pub fn lists(&self, name: &str, word: &str) -> bool {
        let words = self.all(name).flat_map(|value| value.split(|&byte| byte == b','));
        words.map(<[u8]>::trim_ascii).any(|other| other.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether the connection stays open after this message and the reply to it.
    pub fn keeps_alive(&self) -> bool {
        match self.minor {
            0 => self.lists("connection", "keep-alive"),
            _ => !self.lists("connection", "close"),
        }
    }

    fn framing(&self, of_none: Framing) -> Result<Framing> {
        let mut codings = self.all("transfer-encoding");
        let mut lengths = self.all("content-length");
        match (codings.next(), lengths.next()) {
            (None, None) => Ok(of_none),
            (Some(coding), None)
                if self.minor == 1
                    && codings.next().is_none()
                    && coding.eq_ignore_ascii_case(b"chunked") =>
            {
                Ok(Framing::Chunked)
            }
            (Some(coding), _) => {
                Err(malformed("Transfer-Encoding: chunked alone, without Content-Length", coding))
            }
            (None, Some(length)) => {
                let digits = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
                let count = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
                let count = count.filter(|_| digits && lengths.next().is_none());
                let count = count.ok_or_else(|| malformed("one Content-Length", length))?;
                Ok(Framing::Length(count))
            }
        }
    }
}

/// Reads the head of a request; `None` if more bytes are needed.
///
/// # Errors
/// It is malformed, or longer than the limit.
pub fn request<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<RequestHead<'a>>> {
    let Some(text) = cut(bytes, limits)? else { return Ok(None) };
    let mut slots = [MaybeUninit::uninit(); HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let outcome = parsed.parse_with_uninit_headers(text, &mut slots);
    let (Ok(httparse::Status::Complete(_)), Some(method), Some(target), Some(minor)) =
        (outcome, parsed.method, parsed.path, parsed.version)
    else {
        return Err(malformed("a request line and headers", text));
    };
    let head = collect(parsed.headers, text, minor);
    let framing = head.framing(Framing::Length(0))?;
    Ok(Some(RequestHead { method, target, head, framing }))
}

/// Reads the head of a reply; `None` if more bytes are needed.
///
/// # Errors
/// As [`request`].
pub fn reply<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<ReplyHead<'a>>> {
    let Some(text) = cut(bytes, limits)? else { return Ok(None) };
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut slots);
    let (Ok(httparse::Status::Complete(_)), Some(status), Some(minor)) =
        (parsed.parse(text), parsed.code, parsed.version)
    else {
        return Err(malformed("a status line and headers", text));
    };
    let head = collect(parsed.headers, text, minor);
    let framing = match status {
        100..200 | 204 | 304 => Framing::Length(0),
        _ => head.framing(Framing::UntilClose)?,
    };
    Ok(Some(ReplyHead { status, head, framing }))
}

/// The head at the start of `bytes`: the lines up to the first that is empty. An empty line before
/// the first is passed over.
fn cut<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<&'a [u8]>> {
    let within = bytes.get(..limits.head_bytes_max).unwrap_or(bytes);
    let mut line = 0;
    for at in memchr::memchr_iter(b'\n', within) {
        let head = within.get(..=at).unwrap_or_default();
        if !head.ends_with(b"\r\n") {
            return Err(malformed("lines that end with CR LF", head));
        }
        if line > 0 && at == line + 1 {
            return Ok(Some(head));
        }
        line = at + 1;
    }
    if within.len() < limits.head_bytes_max {
        return Ok(None);
    }
    Err(Error::TooLarge {
        protocol: PROTOCOL,
        offset: 0,
        what: "bytes of a head",
        limit: limits.head_bytes_max as u64,
        got: bytes.len() as u64,
    })
}

fn collect<'a>(headers: &[httparse::Header<'a>], text: &[u8], minor: u8) -> Head<'a> {
    let headers = headers.iter().map(|header| (header.name, header.value.trim_ascii())).collect();
    Head { headers, bytes: text.len(), minor }
}

pub(super) fn malformed(expected: &'static str, found: &[u8]) -> Error {
    let shown = found.get(..SHOWN_BYTES_MAX).unwrap_or(found);
    let got = shown.escape_ascii().to_string();
    Error::Malformed { protocol: PROTOCOL, offset: 0, expected, got }
}
