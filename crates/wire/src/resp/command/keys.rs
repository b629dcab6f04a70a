//! Positions of the keys among the arguments of a command.

use super::Command;
use crate::resp::request::Arguments;
use crate::resp::{PROTOCOL, Request};
use crate::{Error, Result};

/// Which arguments are keys. Positions count the command name as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The command names no key.
    None,
    /// From `first` to `last`, every `step`-th; a negative `last` counts from the end, -1 being
    /// the last argument.
    Range {
        /// The first key.
        first: u8,
        /// The last key.
        last: i8,
        /// From one key to the next.
        step: u8,
    },
    /// Argument `count` is the number of keys that follow it, `step` apart; a `destination` may
    /// precede it (EVAL, ZUNIONSTORE, LMPOP).
    Counted {
        /// The argument holding the number of keys.
        count: u8,
        /// From one key to the next.
        step: u8,
        /// A key before the count.
        destination: Option<u8>,
    },
    /// The first half of the arguments after the word STREAMS (XREAD, XREADGROUP).
    Streams,
    /// Argument 1, and the one after the last STORE (SORT).
    SortStore,
    /// Argument 1, and the one after the last STORE or STOREDIST (GEORADIUS).
    GeoStore,
    /// Argument 3, or if that is empty all arguments after KEYS (MIGRATE).
    Migrate,
}

impl Keys {
    /// One key, argument 1.
    pub(super) const FIRST: Self = range(1, 1, 1);
    /// One key after the subcommand, argument 2.
    pub(super) const SECOND: Self = range(2, 2, 1);
    /// Two keys, arguments 1 and 2.
    pub(super) const FIRST_TWO: Self = range(1, 2, 1);
    /// Every argument.
    pub(super) const ALL: Self = range(1, -1, 1);
    /// Every argument but the first.
    pub(super) const FROM_SECOND: Self = range(2, -1, 1);
    /// Every argument but the last, a timeout or a path.
    pub(super) const ALL_BUT_LAST: Self = range(1, -2, 1);
    /// Keys and values in turn.
    pub(super) const PAIRS: Self = range(1, -1, 2);
    /// Keys, paths and values in turn.
    pub(super) const TRIPLES: Self = range(1, -1, 3);

    /// A count at argument `count`, followed by the keys.
    pub(super) const fn counted(count: u8) -> Self {
        Self::Counted { count, step: 1, destination: None }
    }

    /// A destination at argument 1, a count at argument 2, followed by the keys.
    pub(super) const DESTINATION_COUNTED: Self =
        Self::Counted { count: 2, step: 1, destination: Some(1) };
}

impl Keys {
    /// Number of arguments from one key to the next.
    pub fn step(self) -> usize {
        match self {
            Self::Range { step, .. } | Self::Counted { step, .. } => usize::from(step),
            _ => 1,
        }
    }
}

const fn range(first: u8, last: i8, step: u8) -> Keys {
    Keys::Range { first, last, step }
}

impl Command {
    /// The keys of a request of this command, in their order.
    ///
    /// Fails if they cannot be determined: too few arguments, a count that does not fit, unknown
    /// options. The server most likely refuses such a request, but a caller must treat it as a
    /// write to everything.
    #[inline]
    pub fn keys<'r>(&self, request: &'r Request<'_>) -> Result<KeyIter<'r>> {
        self.keys.select(request).ok_or_else(|| Error::Malformed {
            protocol: PROTOCOL,
            offset: 0,
            expected: "arguments from which the keys can be determined",
            got: format!("`{}` with {} arguments", self.name, request.len()),
        })
    }
}

/// The keys of one request in order. Allocates nothing.
#[derive(Debug, Clone)]
pub struct KeyIter<'r> {
    arguments: Arguments<'r>,
    /// Position of the next argument.
    position: usize,
    selection: Selection,
}

/// Positions of keys: a regular range and at most one more.
#[derive(Debug, Clone, Copy, Default)]
struct Selection {
    /// Next position of the range.
    next: usize,
    /// One past the last position of the range; 0 for no range.
    end: usize,
    step: usize,
    extra: Option<usize>,
}

impl Selection {
    /// `count` keys from `first` on.
    fn run(first: usize, count: usize, step: usize) -> Self {
        Self {
            next: first,
            end: first.saturating_add(count.saturating_mul(step)),
            step,
            extra: None,
        }
    }

    fn with(self, extra: Option<usize>) -> Self {
        Self { extra, ..self }
    }

    /// Whether the argument at `position` is a key; must be called for each position in order.
    #[inline]
    fn takes(&mut self, position: usize) -> bool {
        if position == self.next && position < self.end {
            self.next += self.step;
            return true;
        }
        self.extra == Some(position)
    }
}

impl<'r> Iterator for KeyIter<'r> {
    type Item = &'r [u8];

    #[inline]
    fn next(&mut self) -> Option<&'r [u8]> {
        loop {
            let argument = self.arguments.next()?;
            let position = self.position;
            self.position += 1;
            if self.selection.takes(position) {
                return Some(argument);
            }
        }
    }
}

impl Keys {
    #[inline]
    fn select<'r>(self, request: &'r Request<'_>) -> Option<KeyIter<'r>> {
        let selection = match self {
            Self::None => Some(Selection::default()),
            Self::Range { first, last, step } => fixed(first, last, step, request.len()),
            Self::Counted { count, step, destination } => {
                let keys = counted(request, usize::from(count), usize::from(step))?;
                Some(keys.with(destination.map(usize::from)))
            }
            Self::Streams => streams(request),
            Self::SortStore => sort_store(request),
            Self::GeoStore => geo_store(request),
            Self::Migrate => migrate(request),
        };
        Some(KeyIter { arguments: request.arguments(), position: 0, selection: selection? })
    }
}

#[inline]
fn fixed(first: u8, last: i8, step: u8, len: usize) -> Option<Selection> {
    let last = match usize::try_from(last) {
        Ok(last) => last,
        Err(_) => len.checked_sub(usize::from(last.unsigned_abs()))?,
    };
    let (first, step) = (usize::from(first), usize::from(step));
    let end = last + 1;
    (first < end && end <= len).then_some(Selection { next: first, end, step, extra: None })
}

fn counted(request: &Request<'_>, count: usize, step: usize) -> Option<Selection> {
    let keys: usize = std::str::from_utf8(request.argument(count)?).ok()?.parse().ok()?;
    let room = request.len().checked_sub(count + 1)?;
    (keys <= room / step).then(|| Selection::run(count + 1, keys, step))
}

fn streams(request: &Request<'_>) -> Option<Selection> {
    let mut arguments = request.arguments().enumerate().skip(1);
    loop {
        let (at, option) = arguments.next()?;
        let values = match option {
            _ if is(option, "STREAMS") => {
                let behind = request.len() - at - 1;
                let even = behind > 0 && behind.is_multiple_of(2);
                return even.then(|| Selection::run(at + 1, behind / 2, 1));
            }
            _ if is(option, "COUNT") || is(option, "BLOCK") || is(option, "CLAIM") => 1,
            _ if is(option, "GROUP") => 2,
            _ if is(option, "NOACK") => 0,
            _ => return None,
        };
        skip(&mut arguments, values)?;
    }
}

fn sort_store(request: &Request<'_>) -> Option<Selection> {
    let mut arguments = request.arguments().enumerate().skip(2);
    let mut store = None;
    while let Some((_, option)) = arguments.next() {
        if is(option, "STORE") {
            store = Some(arguments.next()?.0);
        } else if is(option, "BY") || is(option, "GET") {
            skip(&mut arguments, 1)?;
        } else if is(option, "LIMIT") {
            skip(&mut arguments, 2)?;
        } else if !(is(option, "ASC") || is(option, "DESC") || is(option, "ALPHA")) {
            return None;
        }
    }
    (request.len() > 1).then(|| Selection::run(1, 1, 1).with(store))
}

fn geo_store(request: &Request<'_>) -> Option<Selection> {
    // Options follow the radius and its unit, at 5 or 6; none of the words can be a unit.
    let mut arguments = request.arguments().enumerate().skip(5);
    let mut store = None;
    while let Some((_, option)) = arguments.next() {
        if is(option, "STORE") || is(option, "STOREDIST") {
            store = Some(arguments.next()?.0);
        }
    }
    (request.len() > 1).then(|| Selection::run(1, 1, 1).with(store))
}

fn migrate(request: &Request<'_>) -> Option<Selection> {
    let single = request.argument(3)?;
    let mut arguments = request.arguments().enumerate().skip(6);
    while let Some((at, option)) = arguments.next() {
        let values = match option {
            _ if is(option, "KEYS") => {
                let behind = request.len() - at - 1;
                let many = single.is_empty() && behind > 0;
                return many.then(|| Selection::run(at + 1, behind, 1));
            }
            _ if is(option, "COPY") || is(option, "REPLACE") => 0,
            _ if is(option, "AUTH") => 1,
            _ if is(option, "AUTH2") => 2,
            _ => return None,
        };
        skip(&mut arguments, values)?;
    }
    (!single.is_empty()).then(|| Selection::run(3, 1, 1))
}

fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

fn skip<I: Iterator>(arguments: &mut I, values: usize) -> Option<()> {
    match values {
        0 => Some(()),
        values => arguments.nth(values - 1).map(|_| ()),
    }
}
