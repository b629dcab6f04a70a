//! `Cache-Control` (RFC 9111 §5.2), parsed once.
//!
//! Input that cannot be parsed is not skipped: a line that does not match the grammar counts as the
//! most restrictive directive, and so does a directive that is given twice with different values or
//! with a value that is no number. A `private` or `no-cache` with field names counts as one
//! without.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

/// Used for a number of seconds that does not fit (RFC 9111 §1.2.2).
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// The combination of all `Cache-Control` lines of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// A line is not a list of directives.
    pub(crate) unreadable: bool,
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<Duration>,
    pub(crate) s_maxage: Option<Duration>,
    pub(crate) min_fresh: Option<Duration>,
    pub(crate) max_stale: Option<Duration>,
    pub(crate) stale_while_revalidate: Option<Duration>,
    pub(crate) stale_if_error: Option<Duration>,
}

impl Directives {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut said = Self::default();
        let mut lines = headers.get_all(header::CACHE_CONTROL).into_iter().peekable();
        if lines.peek().is_none() {
            // RFC 9111 §5.4: used if there is no Cache-Control.
            said.no_cache = headers.get_all(header::PRAGMA).into_iter().any(says_no_cache);
        }
        let readable = |line: &HeaderValue| said.read(line.as_bytes()).is_some();
        if !lines.all(readable) {
            (said.unreadable, said.no_store, said.no_cache) = (true, true, true);
        }
        said
    }

    /// Adds the directives of a line; `None` if it is not a list of directives.
    fn read(&mut self, line: &[u8]) -> Option<()> {
        let mut rest = line;
        loop {
            rest = skip(rest, |byte| matches!(byte, b' ' | b'\t' | b','));
            if rest.is_empty() {
                return Some(());
            }
            let name;
            (name, rest) = token(rest);
            if name.is_empty() {
                return None;
            }
            let mut value = None;
            if let Some(after) = rest.strip_prefix(b"=") {
                let found;
                (found, rest) = argument(after)?;
                value = Some(found);
            }
            rest = skip(rest, |byte| matches!(byte, b' ' | b'\t'));
            if !rest.is_empty() && rest[0] != b',' {
                return None;
            }
            self.add(name, value);
        }
    }

    /// Whether no stale response may be used. This is a shared cache, for which both are one.
    pub(crate) fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.no_cache
    }

    fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let said_or = |otherwise| seconds(value).unwrap_or(otherwise);
        let none = Duration::ZERO;
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b'm') if is("max-age") => one(&mut self.max_age, said_or(none), none),
            Some(b'm') if is("min-fresh") => one(&mut self.min_fresh, said_or(LONGEST), LONGEST),
            Some(b'm') if is("max-stale") => {
                let any = if value.is_none() { LONGEST } else { none };
                one(&mut self.max_stale, said_or(any), none);
            }
            Some(b'm') => self.must_revalidate |= is("must-revalidate"),
            Some(b'n') => {
                self.no_store |= is("no-store");
                self.no_cache |= is("no-cache");
            }
            Some(b'o') => self.only_if_cached |= is("only-if-cached"),
            Some(b'p') => {
                self.private |= is("private");
                self.public |= is("public");
                self.proxy_revalidate |= is("proxy-revalidate");
            }
            Some(b's') if is("s-maxage") => one(&mut self.s_maxage, said_or(none), none),
            Some(b's') if is("stale-while-revalidate") => {
                one(&mut self.stale_while_revalidate, said_or(none), none);
            }
            Some(b's') if is("stale-if-error") => {
                one(&mut self.stale_if_error, said_or(none), none);
            }
            _ => {}
        }
    }
}

/// Sets `place`; if it has another value already, sets it to `strictest` (RFC 9111 §4.2.1).
fn one(place: &mut Option<Duration>, value: Duration, strictest: Duration) {
    let agrees = place.is_none_or(|before| before == value);
    *place = Some(if agrees { value } else { strictest });
}

fn seconds(value: Option<&[u8]>) -> Option<Duration> {
    delta_seconds(value?)
}

/// A number of seconds (RFC 9111 §1.2.2): digits and nothing else.
pub(crate) fn delta_seconds(text: &[u8]) -> Option<Duration> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    Some(text.parse::<u32>().map_or(LONGEST, |seconds| Duration::from_secs(seconds.into())))
}

fn says_no_cache(pragma: &HeaderValue) -> bool {
    pragma.to_str().map_or(true, |text| text.to_ascii_lowercase().contains("no-cache"))
}

/// The argument of a directive, quoted or not, and what follows.
fn argument(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else { return Some(token(text)) };
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some((&quoted[..at], &quoted[at + 1..])),
            // Escaped text is neither a number nor a known name.
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A token (RFC 9110 §5.6.2), which may be empty, and what follows.
fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = text.iter().position(|byte| !is_of_token(byte)).unwrap_or(text.len());
    text.split_at(length)
}

fn skip(text: &[u8], skipped: impl Fn(u8) -> bool) -> &[u8] {
    let start = text.iter().position(|&byte| !skipped(byte)).unwrap_or(text.len());
    &text[start..]
}
