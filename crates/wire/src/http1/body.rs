//! Bodies: their framing, their end in a stream, and their bytes.

use std::borrow::Cow;

use super::{Limits, PROTOCOL, head::malformed};
use crate::{Error, Result};

/// Longest line that begins a chunk, with its extensions.
const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Longest trailer of a chunked body.
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// After this number of bytes.
    Length(u64),
    /// With the last of its chunks.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to the body.
    pub consumed: usize,
    /// The body ends with them.
    pub complete: bool,
}

/// Finds the end of a body that arrives in pieces.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: State,
    /// Bytes that the body may still have.
    room: u64,
    limit: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Length(u64),
    ChunkLine,
    Chunk(u64),
    ChunkEnd,
    Trailer(usize),
    UntilClose,
    Done,
}

impl Scanner {
    /// A scanner at the start of a body.
    ///
    /// # Errors
    /// The body is longer than the limit.
    pub fn new(framing: Framing, limits: &Limits) -> Result<Self> {
        let limit = limits.body_bytes_max;
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkLine,
            Framing::UntilClose => State::UntilClose,
        };
        let declared = if let State::Length(length) = state { length } else { 0 };
        let mut scanner = Self { state, room: limit, limit };
        scanner.take(declared)?;
        Ok(scanner)
    }

    /// Passes over the next `bytes`.
    ///
    /// # Errors
    /// They are malformed, or the body is longer than the limit.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Progress> {
        self.visit(bytes, |_| {})
    }

    fn visit<'a>(&mut self, bytes: &'a [u8], mut data: impl FnMut(&'a [u8])) -> Result<Progress> {
        let mut consumed = 0;
        loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let taken = match self.state {
                State::Done => return Ok(Progress { consumed, complete: true }),
                State::UntilClose => {
                    self.take(rest.len() as u64)?;
                    data(rest);
                    rest.len()
                }
                State::Length(left) | State::Chunk(left) => {
                    let part =
                        usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    data(rest.get(..part).unwrap_or_default());
                    let left = left - part as u64;
                    self.state = match self.state {
                        State::Length(_) if left == 0 => State::Done,
                        State::Length(_) => State::Length(left),
                        _ if left == 0 => State::ChunkEnd,
                        _ => State::Chunk(left),
                    };
                    part
                }
                State::ChunkLine => match line(rest, CHUNK_LINE_BYTES_MAX)? {
                    None => 0,
                    Some((line, taken)) => {
                        let length = chunk_length(line)?;
                        self.take(length)?;
                        self.state =
                            if length == 0 { State::Trailer(0) } else { State::Chunk(length) };
                        taken
                    }
                },
                State::ChunkEnd => match line(rest, 2)? {
                    None => 0,
                    Some((_, taken)) => {
                        self.state = State::ChunkLine;
                        taken
                    }
                },
                State::Trailer(before) => match line(rest, TRAILER_BYTES_MAX - before)? {
                    None => 0,
                    Some((line, taken)) => {
                        let all = before + taken;
                        self.state =
                            if line.is_empty() { State::Done } else { State::Trailer(all) };
                        taken
                    }
                },
            };
            consumed += taken;
            if taken == 0 {
                return Ok(Progress { consumed, complete: false });
            }
        }
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        self.room = self.room.checked_sub(bytes).ok_or_else(|| Error::TooLarge {
            protocol: PROTOCOL,
            offset: 0,
            what: "bytes of a body",
            limit: self.limit,
            got: (self.limit - self.room).saturating_add(bytes),
        })?;
        Ok(())
    }
}

/// A whole body at the start of `bytes`, without its framing, and its length with it; `None` if
/// more bytes are needed.
///
/// # Errors
/// As [`Scanner`].
pub fn whole<'a>(
    framing: Framing,
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<(Cow<'a, [u8]>, usize)>> {
    let mut scanner = Scanner::new(framing, limits)?;
    if framing != Framing::Chunked {
        let Progress { consumed, complete } = scanner.advance(bytes)?;
        let body = bytes.get(..consumed).unwrap_or_default();
        return Ok(complete.then_some((Cow::Borrowed(body), consumed)));
    }
    let mut body = Vec::new();
    let Progress { consumed, complete } =
        scanner.visit(bytes, |part| body.extend_from_slice(part))?;
    Ok(complete.then_some((Cow::Owned(body), consumed)))
}

/// The next line without its end, and its length with it.
fn line(bytes: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>> {
    let within = bytes.get(..bytes_max).unwrap_or(bytes);
    match memchr::memchr(b'\n', within) {
        Some(at) => match within.get(..at).and_then(|line| line.strip_suffix(b"\r")) {
            Some(line) => Ok(Some((line, at + 1))),
            None => Err(malformed("lines that end with CR LF", within)),
        },
        None if within.len() >= bytes_max => Err(malformed("a shorter line of a chunk", within)),
        None => Ok(None),
    }
}

fn chunk_length(line: &[u8]) -> Result<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
    let extended = rest.trim_ascii_start();
    let fits = (1..=16).contains(&digits.len()) && (rest.is_empty() || extended.starts_with(b";"));
    let text = std::str::from_utf8(digits).ok().filter(|_| fits);
    let length = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    length.ok_or_else(|| malformed("the length of a chunk", line))
}
