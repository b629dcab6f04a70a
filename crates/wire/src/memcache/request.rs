//! Requests of the text protocol and of the meta commands, in a stream.
//!
//! A line ends with LF or CR LF. Whether a value follows a line, and its length, depends on the
//! line alone, so a line that servers could read differently is refused: one with a value whose
//! numbers are not plain, or with a NUL, at which memcached stops reading. A line with fewer words
//! than its command needs is an unknown command to servers, and has no value.

use super::{KEY_BYTES_MAX, Limits, PROTOCOL, Verb};
use crate::{Error, Result, resp::request::Passed};

/// One request; of a value that is incomplete, the received beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    bytes: &'a [u8],
    /// Without blanks before it and its line end.
    line: &'a [u8],
    verb: Verb,
    value: &'a [u8],
}

/// The rest of a request that is too long to be held: finds its end without keeping its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passing {
    /// Bytes still due, including the line end after the value.
    left: usize,
}

const LINE_END: &[u8] = b"\r\n";

/// Cuts the first complete request off `bytes` and returns it with its length.
///
/// # Errors
/// Servers may interpret the request differently, or it exceeds a limit.
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<(Request<'a>, usize)>> {
    let Some((request, taken, value_bytes)) = line(bytes, limits)? else { return Ok(None) };
    let Some(value_bytes) = value_bytes else { return Ok(Some((request, taken))) };
    let end = taken + value_bytes + LINE_END.len();
    let Some(bytes) = bytes.get(..end) else { return Ok(None) };
    let (value, line_end) = bytes.get(taken..).unwrap_or_default().split_at(value_bytes);
    if line_end != LINE_END {
        return Err(unterminated(taken + value_bytes));
    }
    Ok(Some((Request { bytes, value, ..request }, end)))
}

/// Returns the beginning of a request whose value is incomplete, its length, and what finds the end
/// of the request. `None` if its line is incomplete, or if it has no value.
///
/// # Errors
/// As [`decode`].
pub fn begin<'a>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<(Request<'a>, usize, Passing)>> {
    let Some((request, taken, Some(value_bytes))) = line(bytes, limits)? else { return Ok(None) };
    let mut passing = Passing { left: value_bytes + LINE_END.len() };
    let passed = passing.advance(bytes.get(taken..).unwrap_or_default())?;
    Ok(Some((request, taken + passed.bytes, passing)))
}

impl Passing {
    /// Returns how many of the next `bytes` belong to the request, and whether it ends with them.
    ///
    /// # Errors
    /// The value does not have the length that its line announces.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Passed> {
        if self.left == 0 {
            return Ok(Passed { bytes: 0, ends: true });
        }
        let value_left = self.left.saturating_sub(LINE_END.len());
        let passed = match bytes.get(value_left..) {
            None => bytes.len(),
            // The line end is passed in one piece.
            Some(rest) => match rest.get(..LINE_END.len()) {
                Some(LINE_END) => self.left,
                Some(_) => return Err(unterminated(value_left)),
                None => value_left,
            },
        };
        self.left -= passed;
        Ok(Passed { bytes: passed, ends: self.left == 0 })
    }
}

/// A line, the bytes up to its end, and the length of the value that follows it.
type Line<'a> = (Request<'a>, usize, Option<usize>);

#[inline]
fn line<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<Line<'a>>> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        check_length(bytes, bytes.len(), limits)?;
        return Ok(None);
    };
    check_length(bytes, end, limits)?;
    let (bytes, _) = bytes.split_at(end + 1);
    let line = bytes.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(offset) = memchr::memchr(0, line) {
        return Err(malformed(offset, "a line without NUL", b"NUL"));
    }
    let line = line.trim_prefix_blanks();
    let word = memchr::memchr(b' ', line).unwrap_or(line.len());
    let verb = Verb::of(line.get(..word).unwrap_or_default());
    let mut request = Request { bytes, line, verb, value: &[] };
    let value_bytes = match verb.has_value().then(|| request.value_bytes(limits)) {
        None => None,
        Some(Err(_)) if request.lacks_words() => {
            request.verb = Verb::Unknown;
            None
        }
        Some(value_bytes) => value_bytes?,
    };
    Ok(Some((request, bytes.len(), value_bytes)))
}

/// Checks how long the line may be that begins with `bytes` and has at least this length.
#[inline]
fn check_length(bytes: &[u8], length: usize, limits: &Limits) -> Result<()> {
    if length <= limits.line_bytes_max {
        return Ok(());
    }
    let line = bytes.trim_prefix_blanks();
    let limit = match line.starts_with(b"get ") || line.starts_with(b"gets ") {
        true => limits.keys_line_bytes_max,
        false => limits.line_bytes_max,
    };
    if length > limit { Err(long_line(limit, length)) } else { Ok(()) }
}

trait Blanks {
    fn trim_prefix_blanks(&self) -> &Self;
}

impl Blanks for [u8] {
    #[inline]
    fn trim_prefix_blanks(&self) -> &Self {
        let blanks = self.iter().take_while(|&&byte| byte == b' ').count();
        self.get(blanks..).unwrap_or_default()
    }
}

impl<'a> Request<'a> {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its command.
    #[inline]
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The name of its command; "" if unknown.
    #[must_use]
    pub fn name(&self) -> &'static str {
        Verb::name_of(self.words().next().unwrap_or_default())
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The words of its line, the command first.
    #[inline]
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.line.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
    }

    /// The one key it names, unless it is one that no server takes.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.words().nth(1).filter(|key| is_key(key))
    }

    /// The keys of `get`, `gets`, `gat` and `gats`, and those that no server takes.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let before = match self.verb {
            Verb::Gat | Verb::Gats => 2,
            _ => 1,
        };
        self.words().skip(before)
    }

    /// The flags of a meta command, in their order: letter and token.
    pub fn flags(&self) -> impl Iterator<Item = (u8, &'a [u8])> + Clone + use<'a> {
        let before = match self.verb {
            Verb::MetaSet => 3,
            _ => 2,
        };
        let words = self.words().skip(before);
        words.filter_map(|word| word.split_first().map(|(&letter, token)| (letter, token)))
    }

    /// Whether it suppresses its reply, or the usual one. An error may be sent nevertheless.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self.verb {
            _ if self.verb.is_meta() => self.flags().any(|(letter, _)| letter == b'q'),
            Verb::Set | Verb::Store | Verb::Cas | Verb::Change | Verb::FlushAll | Verb::Manage => {
                self.words().last() == Some(b"noreply")
            }
            _ => false,
        }
    }

    /// Whether its line has fewer words than its command needs. Servers reply `ERROR`, as to an
    /// unknown command, and expect no value.
    #[cold]
    fn lacks_words(&self) -> bool {
        let needed = match self.verb {
            Verb::MetaSet => return false,
            Verb::Cas => 6,
            _ => 5,
        };
        self.words().count() < needed
    }

    /// Returns the length of the value that the line announces; `None` if no server can expect one.
    fn value_bytes(&self, limits: &Limits) -> Result<Option<usize>> {
        let mut words = self.words().skip(1);
        let mut next = || words.next().unwrap_or_default();
        let key = next();
        if !is_key(key) {
            return Err(malformed(0, "a key of 1 to 250 bytes", key));
        }
        if self.verb != Verb::MetaSet {
            let (flags, expiry) = (next(), next());
            if number(flags).is_none_or(|flags| flags > u32::MAX.into()) {
                return Err(malformed(0, "the flags of the item, a number of 32 bits", flags));
            }
            if number(expiry.strip_prefix(b"-").unwrap_or(expiry)).is_none() {
                return Err(malformed(0, "an expiry in seconds", expiry));
            }
        }
        let length = next();
        if length.is_empty() && self.verb == Verb::MetaSet {
            return Ok(None);
        }
        let Some(value_bytes) = number(length) else {
            return Err(malformed(0, "the length of the value", length));
        };
        if self.verb == Verb::Cas {
            let unique = next();
            if unique.is_empty() || number(unique).is_none() {
                return Err(malformed(0, "the unique number of the item", unique));
            }
        }
        // One more word is "noreply", or ignored.
        if let Some(word) = words.nth(1).filter(|_| self.verb != Verb::MetaSet) {
            return Err(malformed(0, "the end of the line", word));
        }
        match usize::try_from(value_bytes) {
            Ok(value_bytes) if value_bytes <= limits.value_bytes_max => Ok(Some(value_bytes)),
            _ => Err(Error::TooLarge {
                protocol: PROTOCOL,
                offset: 0,
                what: "value bytes",
                limit: limits.value_bytes_max as u64,
                got: value_bytes,
            }),
        }
    }
}

/// Whether servers accept it as a key.
fn is_key(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
}

/// A number of digits and nothing else.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    let plain = (1..=20).contains(&word.len()) && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| plain)?.parse().ok()
}

/// Returns the error line of a server for such a request.
#[must_use]
pub fn error_line(error: &Error) -> &'static [u8] {
    match error {
        Error::TooLarge { what: LINE_BYTES, .. } => b"CLIENT_ERROR line too long\r\n",
        Error::TooLarge { .. } => b"SERVER_ERROR object too large for cache\r\n",
        Error::Malformed { expected: VALUE_END, .. } => b"CLIENT_ERROR bad data chunk\r\n",
        Error::Malformed { .. } | Error::Foreign { .. } => {
            b"CLIENT_ERROR bad command line format\r\n"
        }
    }
}

const LINE_BYTES: &str = "line bytes";
const VALUE_END: &str = "CR LF after the value";

#[cold]
fn long_line(limit: usize, got: usize) -> Error {
    let (limit, got) = (limit as u64, got as u64);
    Error::TooLarge { protocol: PROTOCOL, offset: 0, what: LINE_BYTES, limit, got }
}

#[cold]
fn unterminated(offset: usize) -> Error {
    malformed(offset, VALUE_END, b"other bytes")
}

#[cold]
fn malformed(offset: usize, expected: &'static str, got: &[u8]) -> Error {
    let got = got.get(..40).unwrap_or(got).escape_ascii().to_string();
    Error::Malformed { protocol: PROTOCOL, offset, expected, got }
}
