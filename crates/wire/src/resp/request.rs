//! Requests of a client.
//!
//! A request is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or one line typed by
//! hand (`GET k\r\n`, "inline"). Lengths are read as strictly as Redis reads them. Where Redis
//! skips two bytes unchecked, this codec requires CR LF: a cache must not forward bytes that
//! another program could split differently.

use std::{borrow::Cow, mem, ops::Range, slice};

use super::length::{self, Length};
use super::{Limits, PROTOCOL};
use crate::{
    Error, Result,
    detect::{self, Protocol},
};

mod inline;
mod passing;

pub use passing::{Beginning, Passed, Passing};

/// One command with its arguments, borrowed from the buffer it was decoded from.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    bytes: &'a [u8],
    /// The arguments as bulk strings without the `*` header. An inline command is converted to this
    /// form, so that code after the decoder sees one form only.
    bulks: Cow<'a, [u8]>,
    len: usize,
    places: Places,
}

/// Positions of the bodies of the first arguments within the bulks, as the decoder found them. Most
/// commands have no more arguments.
type Places = [Range<usize>; PLACED];
const PLACED: usize = 3;

#[expect(clippy::len_without_is_empty, reason = "a request has a name: never empty")]
impl<'a> Request<'a> {
    /// The original bytes of the request, to be forwarded byte for byte, without blank lines before
    /// it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of arguments including the name, at least 1 (`argc` in Redis).
    pub fn len(&self) -> usize {
        self.len
    }

    /// The command name as the client wrote it.
    #[inline]
    pub fn name(&self) -> &[u8] {
        self.argument(0).unwrap_or_default()
    }

    /// All arguments, the name first. Allocates nothing.
    #[inline]
    pub fn arguments(&self) -> Arguments<'_> {
        let placed = self.places.get(..self.len).unwrap_or(&self.places);
        let end = self.places.last().map_or(0, |last| last.end + 2);
        let rest = if self.len > PLACED { self.bulks.get(end..) } else { None };
        let walk = Walk { bulks: rest.unwrap_or_default() };
        Arguments { bulks: &self.bulks, placed: placed.iter(), walk }
    }

    /// Argument `index`; the name is 0. From 3 on it iterates over the arguments before it.
    #[inline]
    pub fn argument(&self, index: usize) -> Option<&[u8]> {
        match self.places.get(index) {
            Some(place) if index < self.len => self.bulks.get(place.clone()),
            Some(_) => None,
            None => self.arguments().nth(index),
        }
    }
}

/// The arguments of one [`Request`] in order.
#[derive(Debug, Clone)]
pub struct Arguments<'r> {
    bulks: &'r [u8],
    /// The arguments whose positions are known.
    placed: slice::Iter<'r, Range<usize>>,
    walk: Walk<'r>,
}

impl<'r> Iterator for Arguments<'r> {
    type Item = &'r [u8];

    #[inline]
    fn next(&mut self) -> Option<&'r [u8]> {
        match self.placed.next() {
            Some(place) => self.bulks.get(place.clone()),
            None => self.walk.next(),
        }
    }

    /// Used by `for_each`: it does not test before each argument which kind is next.
    #[inline]
    fn fold<B, F: FnMut(B, &'r [u8]) -> B>(self, init: B, mut f: F) -> B {
        let placed = self.placed.filter_map(|place| self.bulks.get(place.clone()));
        let folded = placed.fold(init, &mut f);
        self.walk.fold(folded, f)
    }
}

/// Iterates over bulk strings.
#[derive(Debug, Clone)]
struct Walk<'r> {
    bulks: &'r [u8],
}

impl<'r> Iterator for Walk<'r> {
    type Item = &'r [u8];

    #[inline]
    fn next(&mut self) -> Option<&'r [u8]> {
        let header = self.bulks.get(1..)?;
        let (Length::Value(length), header_bytes) = length::read(header) else {
            return None;
        };
        let body = header.get(header_bytes..)?;
        let (argument, rest) = body.split_at_checked(usize::try_from(length).ok()?)?;
        self.bulks = rest.get(2..)?;
        Some(argument)
    }
}

/// Decodes the first request of `bytes`: the request and how many bytes it took, or `None` if more
/// bytes are needed.
///
/// Empty lines, `*0` and `*-1` before the request are skipped, because Redis does not answer them;
/// they count as taken. A caller that reads a large request in many chunks keeps a [`Decoder`].
#[inline]
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<(Request<'a>, usize)>> {
    Decoder::default().decode(bytes, limits)
}

/// A decoder that remembers its position, so that a request in many chunks takes one pass over its
/// bytes, not one pass per chunk.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// Start of the request after skipped white space.
    start: usize,
    /// Start of the first bulk string.
    bulks: usize,
    /// Position up to which the bytes are decoded.
    position: usize,
    /// Position up to which an incomplete inline command was searched for its end.
    searched: usize,
    arguments: usize,
    arguments_left: usize,
    places: Places,
}

impl Decoder {
    /// Like [`decode`]. After `None`, call again with the same bytes and more after them; after a
    /// request, with the bytes after those taken. After an error the connection cannot be used.
    #[inline]
    pub fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<(Request<'a>, usize)>> {
        if self.arguments_left == 0 {
            match self.begin(bytes, limits)? {
                Begun::Partial => return Ok(None),
                Begun::Multibulk => {}
                Begun::Inline(request) => return Ok(Some(self.finish(request))),
            }
        }
        while self.arguments_left > 0 {
            if !self.bulk(bytes, limits)? {
                return Ok(None);
            }
        }
        let request = Request {
            bytes: bytes.get(self.start..self.position).unwrap_or_default(),
            bulks: Cow::Borrowed(bytes.get(self.bulks..self.position).unwrap_or_default()),
            len: self.arguments,
            places: mem::take(&mut self.places),
        };
        Ok(Some(self.finish(request)))
    }

    #[inline]
    fn finish<'a>(&mut self, request: Request<'a>) -> (Request<'a>, usize) {
        let taken = self.position;
        *self = Self::default();
        (request, taken)
    }

    /// Skips blanks and reads the `*` header, or a whole inline command.
    #[inline]
    fn begin<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Begun<'a>> {
        loop {
            if self.position > limits.inline_bytes_max {
                let got = self.position as u64;
                return Err(too_large(0, BLANK_BYTES, limits.inline_bytes_max, got));
            }
            self.start = self.position;
            let Some((&first, header)) = bytes.get(self.start..).and_then(<[u8]>::split_first)
            else {
                return Ok(Begun::Partial);
            };
            if first != b'*' {
                match self.inline(bytes, limits)? {
                    Some(request) if request.len == 0 => continue,
                    Some(request) => return Ok(Begun::Inline(request)),
                    None => return Ok(Begun::Partial),
                }
            }
            let count = match length::read(header) {
                (Length::Value(count), header_bytes) => {
                    self.position += 1 + header_bytes;
                    count
                }
                (Length::Partial, _) => return Ok(Begun::Partial),
                (_, at) => {
                    // A frame of another protocol may begin with this byte.
                    let rest = bytes.get(self.start..).unwrap_or_default();
                    if !detect::expect(Protocol::Resp, rest)? && detect::may_be_binary(rest) {
                        return Ok(Begun::Partial);
                    }
                    return Err(invalid_arguments(self.start + 1 + at));
                }
            };
            let Some(arguments) = usize::try_from(count).ok().filter(|&count| count > 0) else {
                continue;
            };
            if arguments > limits.arguments_max {
                let got = arguments as u64;
                let what = if limits.before_login { LOGIN_ARGUMENTS } else { ARGUMENTS };
                return Err(too_large(self.start, what, limits.arguments_max, got));
            }
            self.bulks = self.position;
            self.arguments = arguments;
            self.arguments_left = arguments;
            return Ok(Begun::Multibulk);
        }
    }

    /// Takes the current bulk string, once its CR LF has been received; `false` until then. It
    /// notes the position itself: a position that is returned is written in two parts and read in
    /// one, for which the processor waits.
    #[inline]
    fn bulk(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool> {
        let at = self.position;
        let Some((&first, header)) = bytes.get(at..).and_then(<[u8]>::split_first) else {
            return Ok(false);
        };
        if first != b'$' {
            return Err(not_a_bulk(at, first));
        }
        let (length, body) = match length::read(header) {
            (Length::Value(length), header_bytes) => (length, at + 1 + header_bytes),
            (Length::Partial, _) => return Ok(false),
            (_, offset) => return Err(invalid_bulk(at + 1 + offset)),
        };
        let Ok(length) = usize::try_from(length) else { return Err(invalid_bulk(at + 1)) };
        if length > limits.bulk_bytes_max {
            let what = if limits.before_login { LOGIN_BULK_BYTES } else { BULK_BYTES };
            return Err(too_large(at, what, limits.bulk_bytes_max, length as u64));
        }
        let end = (body + 2).saturating_add(length);
        if end - self.start > limits.request_bytes_max {
            let got = (end - self.start) as u64;
            return Err(too_large(at, REQUEST_BYTES, limits.request_bytes_max, got));
        }
        match bytes.get(end - 2..end) {
            Some(b"\r\n") => {}
            Some(_) => return Err(unterminated_bulk(end - 2)),
            None => return Ok(false),
        }
        if let Some(place) = self.places.get_mut(self.arguments - self.arguments_left) {
            place.start = body - self.bulks;
            place.end = end - 2 - self.bulks;
        }
        self.position = end;
        self.arguments_left -= 1;
        Ok(true)
    }

    /// Reads one inline command; without arguments if the line is blank.
    ///
    /// Every Redis listener decodes here, so other protocols are detected here: at the start of
    /// each line, because any web page can make a browser send a request to a port of the local
    /// machine, with commands in the body. A browser request cannot begin with `*`.
    #[cold]
    fn inline<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Option<Request<'a>>> {
        // One byte more than allowed is searched, so that the limit is the same for any chunking.
        let end = self.start.saturating_add(limits.inline_bytes_max).saturating_add(1);
        let end = end.min(bytes.len());
        let from = self.searched.max(self.start);
        let rest = bytes.get(self.start..end).unwrap_or_default();
        if from - self.start < detect::LOOK_BYTES && !detect::expect(Protocol::Resp, rest)? {
            return Ok(None);
        }
        let Some(found) = memchr::memchr(b'\n', bytes.get(from..end).unwrap_or_default()) else {
            self.searched = end;
            let got = (end - self.start) as u64;
            return if end - self.start > limits.inline_bytes_max {
                Err(too_large(self.start, INLINE_BYTES, limits.inline_bytes_max, got))
            } else {
                Ok(None)
            };
        };
        self.position = from + found + 1;
        if from > self.start {
            // The line was incomplete at the check above.
            detect::expect(Protocol::Resp, rest)?;
        }
        let line = bytes.get(self.start..from + found).unwrap_or_default();
        let (bulks, len) = inline::split(line, self.start)?;
        let bytes = bytes.get(self.start..self.position).unwrap_or_default();
        let places = inline::places(&bulks);
        Ok(Some(Request { bytes, bulks: Cow::Owned(bulks), len, places }))
    }
}

/// The start of a request.
enum Begun<'a> {
    Partial,
    Multibulk,
    Inline(Request<'a>),
}

/// Appends a command in the form every server reads, an array of bulk strings.
pub fn write_command(out: &mut Vec<u8>, arguments: &[impl AsRef<[u8]>]) {
    /// Bytes around most arguments: a dollar sign, the length, two ends of lines.
    const AROUND: usize = 8;
    let bytes = arguments.iter().map(|argument| argument.as_ref().len() + AROUND).sum::<usize>();
    // An empty buffer would grow several times: every miss of the cache has one.
    out.reserve(AROUND + bytes);
    length::write(out, b'*', arguments.len());
    for argument in arguments {
        super::response::write_bulk(out, argument.as_ref());
    }
}

const ARGUMENTS: &str = "arguments";
const BLANK_BYTES: &str = "blank bytes before a command";
const BULK_BYTES: &str = "bulk bytes";
const INLINE_BYTES: &str = "inline bytes";
const LOGIN_ARGUMENTS: &str = "arguments before login";
const LOGIN_BULK_BYTES: &str = "bulk bytes before login";
const REQUEST_BYTES: &str = "request bytes";

/// The error reply to send before closing, with the text of Redis if Redis has one.
///
/// # Example
///
/// ```
/// use wire::resp::{Limits, request};
/// let error = request::decode(b"*1\r\n$x\r\n", &Limits::default()).unwrap_err();
/// assert_eq!(request::error_line(&error), b"-ERR Protocol error: invalid bulk length\r\n");
/// ```
pub fn error_line(error: &Error) -> Vec<u8> {
    let reason = match error {
        Error::Malformed { expected: "'$'", got, .. } => format!("expected '$', got {got}"),
        Error::Malformed { got, .. } => got.clone(),
        Error::Foreign { found, first, .. } => {
            let mut told = Vec::new();
            detect::refuse(*found, first, &error.to_string(), &mut told);
            return told;
        }
        Error::TooLarge { what: ARGUMENTS, .. } => "invalid multibulk length".to_owned(),
        Error::TooLarge { what: LOGIN_ARGUMENTS, .. } => {
            "unauthenticated multibulk length".to_owned()
        }
        Error::TooLarge { what: BULK_BYTES, .. } => "invalid bulk length".to_owned(),
        Error::TooLarge { what: LOGIN_BULK_BYTES, .. } => "unauthenticated bulk length".to_owned(),
        Error::TooLarge { what: INLINE_BYTES, .. } => "too big inline request".to_owned(),
        Error::TooLarge { what, limit, .. } => format!("more than {limit} {what}"),
    };
    format!("-ERR Protocol error: {reason}\r\n").into_bytes()
}

#[cold]
fn too_large(offset: usize, what: &'static str, limit: usize, got: u64) -> Error {
    Error::TooLarge { protocol: PROTOCOL, offset, what, limit: limit as u64, got }
}

#[cold]
fn malformed(offset: usize, expected: &'static str, got: impl Into<String>) -> Error {
    Error::Malformed { protocol: PROTOCOL, offset, expected, got: got.into() }
}

#[cold]
fn invalid_arguments(offset: usize) -> Error {
    malformed(offset, "a number of arguments", "invalid multibulk length")
}

#[cold]
fn invalid_bulk(offset: usize) -> Error {
    malformed(offset, "a length in bytes", "invalid bulk length")
}

#[cold]
fn unterminated_bulk(offset: usize) -> Error {
    malformed(offset, "CR LF behind the declared length", "invalid bulk length")
}

#[cold]
fn not_a_bulk(offset: usize, first: u8) -> Error {
    malformed(offset, "'$'", format!("'{}'", first.escape_ascii()))
}

#[cfg(test)]
mod tests;
