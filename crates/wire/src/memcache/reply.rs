//! Replies: where one ends, and what is in it.
//!
//! No reply names its request, and its end depends on that request. Some requests have no reply, or
//! one of any number of lines: after such a request a caller sends [`FENCE`], which every server
//! answers with one line.

use std::borrow::Cow;

use super::{Limits, PROTOCOL, base64, request::number};
use crate::{Error, Result};

/// A request whose reply is the end of the reply before it.
pub const FENCE: &[u8] = b"version\r\n";
const FENCED: &[u8] = b"VERSION ";
/// Reply to the last request of a packet, also to a fence, before the client has logged in. The
/// others have none.
pub const NO_LOGIN: &[u8] = b"CLIENT_ERROR unauthenticated";

/// How a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// With its first line.
    Line,
    /// `VALUE` lines, each with a value, and one other line.
    Values,
    /// With its first line, and a value if that is `VA`.
    Meta,
    /// With the first line that lists no key.
    Keys,
    /// Where the reply to [`FENCE`] begins.
    Fenced,
}

/// Finds the ends of replies in a stream, without keeping their bytes.
#[derive(Debug, Default, Clone)]
pub struct Scanner {
    /// Bytes still due of a value and its line end.
    value_left: usize,
    /// The reply ends with them.
    last: bool,
}

/// Result of [`Scanner::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to the reply. Bytes that are not taken must be passed again with more.
    pub consumed: usize,
    /// The reply ends with them. Of a fenced one that may be none.
    pub complete: bool,
}

impl Scanner {
    /// Returns how far the current reply, which has this shape, extends into `bytes`.
    ///
    /// # Errors
    /// A line is not one of a server, or exceeds a limit.
    pub fn advance(&mut self, bytes: &[u8], shape: Shape, limits: &Limits) -> Result<Progress> {
        let mut consumed = 0;
        loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            if self.value_left > 0 {
                let step = self.value_left.min(rest.len());
                self.value_left -= step;
                consumed += step;
                if self.value_left > 0 {
                    return Ok(Progress { consumed, complete: false });
                }
                if std::mem::take(&mut self.last) {
                    return Ok(Progress { consumed, complete: true });
                }
                continue;
            }
            if shape == Shape::Fenced && rest.starts_with(FENCED) {
                return Ok(Progress { consumed, complete: true });
            }
            let Some(end) = memchr::memchr(b'\n', rest) else {
                return match rest.len() > limits.line_bytes_max {
                    true => Err(long_line(consumed, limits, rest.len())),
                    false => Ok(Progress { consumed, complete: false }),
                };
            };
            if end > limits.line_bytes_max {
                return Err(long_line(consumed, limits, end));
            }
            let line = rest.get(..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let complete = self
                .read_line(line, shape, limits)
                .map_err(|expected| unreadable(consumed, expected, line))?;
            consumed += end + 1;
            if complete {
                return Ok(Progress { consumed, complete: true });
            }
        }
    }

    /// Whether the reply ends with this line.
    fn read_line(
        &mut self,
        line: &[u8],
        shape: Shape,
        limits: &Limits,
    ) -> Result<bool, &'static str> {
        let value_bytes = match line.split_at_checked(3) {
            _ if shape == Shape::Line || shape == Shape::Keys => None,
            Some((b"VAL", _)) if shape != Shape::Meta && line.starts_with(b"VALUE ") => {
                Some(Value::parse(line).ok_or(VALUE_LINE)?.1)
            }
            Some((b"VA ", _)) if shape != Shape::Values => {
                let length = line.split(|&byte| byte == b' ').nth(1);
                let length = length.and_then(number).ok_or(META_LINE)?;
                Some(usize::try_from(length).map_err(|_| META_LINE)?)
            }
            _ => None,
        };
        if let Some(value_bytes) = value_bytes {
            if value_bytes > limits.value_bytes_max {
                return Err("a value within the limit");
            }
            (self.value_left, self.last) = (value_bytes + 2, shape == Shape::Meta);
            return Ok(false);
        }
        Ok(match shape {
            Shape::Line | Shape::Values | Shape::Meta => true,
            Shape::Keys => !(line.starts_with(b"key=") || line.starts_with(b"mg ")),
            Shape::Fenced => line == NO_LOGIN,
        })
    }
}

const VALUE_LINE: &str = "VALUE, a key, flags, a length and perhaps a unique number";
const META_LINE: &str = "VA and a length";

/// One item in the reply to `get` or one of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// The client's own flags, as digits.
    pub flags: &'a [u8],
    /// The unique number, as digits, if it was asked for.
    pub unique: Option<&'a [u8]>,
    /// Its bytes.
    pub value: &'a [u8],
}

impl<'a> Value<'a> {
    /// Parses a `VALUE` line without its end; returns it with the length of the value that follows.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<(Self, usize)> {
        let mut words = line.split(|&byte| byte == b' ');
        if words.next() != Some(b"VALUE") {
            return None;
        }
        let (key, flags) = (words.next()?, words.next()?);
        let value_bytes = usize::try_from(number(words.next()?)?).ok()?;
        number(flags)?;
        let unique = words.next();
        let whole = unique.is_none_or(|unique| number(unique).is_some()) && words.next().is_none();
        whole.then_some((Self { key, flags, unique, value: &[] }, value_bytes))
    }

    /// Returns the first item in `reply` and its length; `None` if the reply does not begin with a
    /// complete item.
    #[must_use]
    pub fn first(reply: &'a [u8]) -> Option<(Self, usize)> {
        let (line, start) = first_line(reply)?;
        let (value, value_bytes) = Self::parse(line)?;
        let end = start.checked_add(value_bytes)?;
        let bytes = reply.get(start..end)?;
        (reply.get(end..end.checked_add(2)?)? == b"\r\n")
            .then_some((Self { value: bytes, ..value }, end + 2))
    }
}

/// The reply to a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta<'a> {
    /// `VA`, `HD`, `EN`, `NS`, …
    pub code: &'a [u8],
    /// The words after it, and after the length if there is a value: letter and token each.
    flags: &'a [u8],
    /// The value, of `VA`.
    pub value: Option<&'a [u8]>,
}

impl<'a> Meta<'a> {
    /// Parses a complete reply with nothing after it.
    #[must_use]
    pub fn parse(reply: &'a [u8]) -> Option<Self> {
        let (line, start) = first_line(reply)?;
        let (code, flags) = line.split_at_checked(2)?;
        let rest = reply.get(start..)?;
        if code != b"VA" {
            return rest.is_empty().then_some(Self { code, flags, value: None });
        }
        let words = flags.strip_prefix(b" ")?;
        let length = memchr::memchr(b' ', words).unwrap_or(words.len());
        let (length, flags) = words.split_at_checked(length)?;
        let value = rest.strip_suffix(b"\r\n")?;
        (value.len() as u64 == number(length)?).then_some(Self { code, flags, value: Some(value) })
    }

    /// Returns its flags in their order: letter and token.
    pub fn flags(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let words = self.flags.split(|&byte| byte == b' ');
        words.filter_map(|word| word.split_first().map(|(&letter, token)| (letter, token)))
    }

    /// Returns the key that it names, decoded if it is in base64.
    #[must_use]
    pub fn key(&self) -> Option<Cow<'a, [u8]>> {
        let key = self.flag(b'k')?;
        match self.flag(b'b') {
            None => Some(Cow::Borrowed(key)),
            Some(_) => base64::decode(key).map(Cow::Owned),
        }
    }

    /// Returns the token of its flag `letter`.
    #[must_use]
    pub fn flag(&self, letter: u8) -> Option<&'a [u8]> {
        self.flags().find_map(|(found, token)| (found == letter).then_some(token))
    }
}

/// Returns the first line without its end, and the offset of the next line.
fn first_line(reply: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', reply)?;
    let line = reply.get(..end)?.strip_suffix(b"\r")?;
    Some((line, end + 1))
}

#[cold]
fn long_line(offset: usize, limits: &Limits, got: usize) -> Error {
    let (limit, got) = (limits.line_bytes_max as u64, got as u64);
    Error::TooLarge { protocol: PROTOCOL, offset, what: "line bytes", limit, got }
}

#[cold]
fn unreadable(offset: usize, expected: &'static str, line: &[u8]) -> Error {
    let got = line.get(..60).unwrap_or(line).escape_ascii().to_string();
    Error::Malformed { protocol: PROTOCOL, offset, expected, got }
}
