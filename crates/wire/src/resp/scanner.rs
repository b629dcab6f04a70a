//! Finding the end of a reply without keeping it.
//!
//! A reply of half a gigabyte is forwarded in the chunks in which it arrives: the scanner keeps a
//! few numbers and one level per open aggregate, but no bytes.

use super::frame::Kind;
use super::length::{Length, LengthReader};
use super::{Limits, PROTOCOL};
use crate::{Error, Result};

/// A resumable scanner over a stream of replies.
#[derive(Debug, Clone)]
pub struct Scanner {
    nesting_max: usize,
    /// The elements of an aggregate of known length are counted in the enclosing one.
    merges: bool,
    state: State,
    levels: Vec<Level>,
    kind: Option<Kind>,
    /// Bytes of the reply scanned so far.
    offset: usize,
    /// Start of the value after its attributes.
    value_offset: usize,
}

/// The progress made by one [`Scanner::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to the reply. Fewer than given only if the reply is complete.
    pub consumed: usize,
    /// The reply ends with the last consumed byte; the next byte starts another one.
    pub complete: bool,
    /// The type of the reply, known from its first byte on. Attributes before a reply are part of
    /// it and not reported here; a [`Kind::Push`] is no reply to a request.
    pub kind: Option<Kind>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A type byte is expected.
    Start,
    /// Inside a line without a length; its end is the first CR LF.
    Text {
        carriage_return: bool,
    },
    Length {
        kind: Kind,
        reader: LengthReader,
    },
    /// Inside a bulk string or one chunk (`;`) of a streamed string.
    Body {
        left: usize,
        then: Then,
    },
    /// CR LF is expected.
    End {
        carriage_return: bool,
        then: Then,
    },
    /// `;` is expected.
    Chunk,
    ChunkLength {
        reader: LengthReader,
    },
}

/// The element that a CR LF ends.
#[derive(Debug, Clone, Copy)]
enum Then {
    Element,
    Chunk,
    Aggregate,
}

/// One open aggregate.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Remaining elements; `None` if an end mark ends the aggregate.
    left: Option<u64>,
    /// Whether it is an attribute, which annotates the value after it and is no element itself.
    attribute: bool,
}

impl Scanner {
    /// A scanner at the start of a reply.
    pub fn new(limits: &Limits) -> Self {
        Self {
            nesting_max: limits.nesting_max,
            merges: false,
            state: State::Start,
            levels: Vec::new(),
            kind: None,
            offset: 0,
            value_offset: 0,
        }
    }

    /// The same for replies of any depth that are only forwarded. [`Limits::nesting_max`] then
    /// bounds only aggregates without a length (`*?`), which no server sends.
    pub fn passing(limits: &Limits) -> Self {
        Self { merges: true, ..Self::new(limits) }
    }

    /// Scans the next chunk of the stream up to the end of the current reply. To scan the next
    /// reply, call again with the bytes that were not consumed.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Progress> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Step { taken, complete } = self.step(rest)?;
            self.offset += taken;
            rest = rest.get(taken..).unwrap_or_default();
            if complete {
                let kind = self.kind.take();
                self.offset = 0;
                return Ok(Progress { consumed: bytes.len() - rest.len(), complete, kind });
            }
        }
        Ok(Progress { consumed: bytes.len(), complete: false, kind: self.kind })
    }

    /// Returns the start of the value in the reply last scanned, after its attributes.
    pub(super) fn value_offset(&self) -> usize {
        self.value_offset
    }

    /// Returns the minimum number of bytes until the current reply ends.
    pub(super) fn bytes_due(&self) -> usize {
        match self.state {
            State::Body { left, .. } => left,
            _ => 0,
        }
    }

    /// One step of the state machine over at least one byte.
    fn step(&mut self, bytes: &[u8]) -> Result<Step> {
        match self.state {
            State::Start => self.start(bytes.first().copied().unwrap_or_default()),
            State::Text { carriage_return } => Ok(self.text(bytes, carriage_return)),
            State::Length { kind, reader } => self.length(bytes, kind, reader),
            State::Body { left, then } => {
                let taken = left.min(bytes.len());
                self.state = match left - taken {
                    0 => State::End { carriage_return: false, then },
                    left => State::Body { left, then },
                };
                Ok(Step::over(taken))
            }
            State::End { carriage_return, then } => self.end(bytes, carriage_return, then),
            State::Chunk => match bytes.first() {
                Some(b';') => {
                    self.state = State::ChunkLength { reader: LengthReader::default() };
                    Ok(Step::over(1))
                }
                _ => Err(self.unexpected(0, "';'", bytes)),
            },
            State::ChunkLength { reader } => self.chunk_length(bytes, reader),
        }
    }

    fn start(&mut self, byte: u8) -> Result<Step> {
        if byte == b'.' && self.levels.last().is_some_and(|level| level.left.is_none()) {
            self.state = State::End { carriage_return: false, then: Then::Aggregate };
            return Ok(Step::over(1));
        }
        let Some(kind) = Kind::of(byte) else {
            return Err(self.unexpected(0, "the type byte of a reply", &[byte]));
        };
        if self.levels.is_empty() && kind != Kind::Attribute {
            self.kind = Some(kind);
            self.value_offset = self.offset;
        }
        if kind == Kind::Push && !self.levels.is_empty() {
            // It could be an element or a push between two elements; two readers may differ.
            return Err(self.unexpected(0, "a push between replies only", &[byte]));
        }
        self.state = if kind.has_length() {
            State::Length { kind, reader: LengthReader::default() }
        } else {
            State::Text { carriage_return: false }
        };
        Ok(Step::over(1))
    }

    fn text(&mut self, bytes: &[u8], carriage_return: bool) -> Step {
        if carriage_return && bytes.first() == Some(&b'\n') {
            return self.finish_element(1);
        }
        let mut from = 0;
        while let Some(found) = memchr::memchr(b'\r', bytes.get(from..).unwrap_or_default()) {
            from += found + 1;
            match bytes.get(from) {
                Some(b'\n') => return self.finish_element(from + 1),
                Some(_) => {}
                None => break,
            }
        }
        self.state = State::Text { carriage_return: bytes.last() == Some(&b'\r') };
        Step::over(bytes.len())
    }

    fn length(&mut self, bytes: &[u8], kind: Kind, mut reader: LengthReader) -> Result<Step> {
        let (length, taken) = reader.feed(bytes);
        let length = match length {
            Length::Partial => {
                self.state = State::Length { kind, reader };
                return Ok(Step::over(taken));
            }
            Length::Invalid => return Err(self.unexpected(taken, "a length", bytes)),
            Length::Streamed if kind.is_aggregate() => return self.open(None, kind, taken),
            Length::Streamed if kind == Kind::Bulk => {
                self.state = State::Chunk;
                return Ok(Step::over(taken));
            }
            Length::Streamed => return Err(self.malformed(taken, "a length", "'?'".to_owned())),
            Length::Value(length) => length,
        };
        let Ok(size) = usize::try_from(length) else {
            return match (length, kind) {
                (-1, Kind::Bulk | Kind::Array) => Ok(self.finish_element(taken)),
                _ => Err(self.malformed(taken, "a length", length.to_string())),
            };
        };
        if kind.is_aggregate() {
            // A length has at most 18 digits, so twice as many elements fit.
            let elements = size as u64 * if kind.has_pairs() { 2 } else { 1 };
            return self.open(Some(elements), kind, taken);
        }
        self.state = body(size, Then::Element);
        Ok(Step::over(taken))
    }

    fn chunk_length(&mut self, bytes: &[u8], mut reader: LengthReader) -> Result<Step> {
        let (length, taken) = reader.feed(bytes);
        match length {
            Length::Partial => self.state = State::ChunkLength { reader },
            Length::Invalid => return Err(self.unexpected(taken, "a length", bytes)),
            Length::Value(0) => return Ok(self.finish_element(taken)),
            Length::Value(length) if length > 0 => {
                self.state = body(usize::try_from(length).unwrap_or(usize::MAX), Then::Chunk);
            }
            Length::Value(_) | Length::Streamed => {
                return Err(self.malformed(taken, "the length of a chunk", format!("{length:?}")));
            }
        }
        Ok(Step::over(taken))
    }

    fn end(&mut self, bytes: &[u8], carriage_return: bool, then: Then) -> Result<Step> {
        match (bytes.first(), carriage_return) {
            (Some(b'\r'), false) => self.state = State::End { carriage_return: true, then },
            (Some(b'\n'), true) => {
                return Ok(match then {
                    Then::Element => self.finish_element(1),
                    Then::Aggregate => self.close(1),
                    Then::Chunk => {
                        self.state = State::Chunk;
                        Step::over(1)
                    }
                });
            }
            _ => return Err(self.unexpected(0, "CR LF", bytes)),
        }
        Ok(Step::over(1))
    }

    fn open(&mut self, left: Option<u64>, kind: Kind, taken: usize) -> Result<Step> {
        let attribute = kind == Kind::Attribute;
        self.state = State::Start;
        if left == Some(0) {
            return Ok(if attribute { Step::over(taken) } else { self.finish_element(taken) });
        }
        if let Some(more) = left.filter(|_| self.merges)
            && let Some(Level { left: Some(due), .. }) = self.levels.last_mut()
        {
            // Its elements take its place in the enclosing aggregate; those of an attribute come in
            // addition.
            *due = due.saturating_add(more).saturating_sub(u64::from(!attribute));
            return Ok(Step::over(taken));
        }
        if self.levels.len() >= self.nesting_max {
            return Err(Error::TooLarge {
                protocol: PROTOCOL,
                offset: self.offset + taken,
                what: "levels of nesting",
                limit: self.nesting_max as u64,
                got: self.nesting_max as u64 + 1,
            });
        }
        self.levels.push(Level { left, attribute });
        Ok(Step::over(taken))
    }

    /// Ends the innermost aggregate at its end mark.
    fn close(&mut self, taken: usize) -> Step {
        self.state = State::Start;
        match self.levels.pop() {
            Some(level) if level.attribute => Step::over(taken),
            _ => self.finish_element(taken),
        }
    }

    /// Ends one element and every aggregate whose last element it is.
    fn finish_element(&mut self, taken: usize) -> Step {
        self.state = State::Start;
        while let Some(level) = self.levels.last_mut() {
            let Some(left) = level.left.as_mut() else { return Step::over(taken) };
            *left -= 1;
            if *left > 0 {
                return Step::over(taken);
            }
            let attribute = level.attribute;
            self.levels.pop();
            if attribute {
                return Step::over(taken);
            }
        }
        Step { taken, complete: true }
    }

    /// The byte at `at` is wrong.
    #[cold]
    fn unexpected(&self, at: usize, expected: &'static str, bytes: &[u8]) -> Error {
        let byte = bytes.get(at).copied().unwrap_or_default();
        self.malformed(at, expected, format!("'{}'", byte.escape_ascii()))
    }

    #[cold]
    fn malformed(&self, at: usize, expected: &'static str, got: String) -> Error {
        Error::Malformed { protocol: PROTOCOL, offset: self.offset + at, expected, got }
    }
}

struct Step {
    taken: usize,
    complete: bool,
}

impl Step {
    fn over(taken: usize) -> Self {
        Self { taken, complete: false }
    }
}

fn body(left: usize, then: Then) -> State {
    match left {
        0 => State::End { carriage_return: false, then },
        left => State::Body { left, then },
    }
}

#[cfg(test)]
pub(super) mod tests;
