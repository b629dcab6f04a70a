//! Commands typed by hand: one line, split at blanks, with the quoting rules of Redis
//! (`sdssplitargs`).

use std::iter::Peekable;
use std::slice::Iter;

use super::{Places, Walk, malformed};
use crate::Result;
use crate::resp::response::write_bulk;

/// Splits a line without its LF; returns the arguments as bulk strings and their number.
///
/// `"…"` has the escapes `\n \r \t \b \a \xHH`; any other escaped byte stands for itself. `'…'` has
/// only `\'`. A closing quote ends its argument and must be followed by a blank or the end.
/// `offset` is the position of the line, for errors.
pub(super) fn split(line: &[u8], offset: usize) -> Result<(Vec<u8>, usize)> {
    // Redis reads the line as a C string: it would ignore everything after a NUL.
    if let Some(at) = memchr::memchr(0, line) {
        return Err(malformed(offset + at, "a line without NUL", "NUL in inline request"));
    }
    let mut rest = line.iter().peekable();
    let mut argument = Vec::new();
    let mut bulks = Vec::new();
    let mut count = 0;
    loop {
        while rest.next_if(|byte| is_blank(**byte)).is_some() {}
        if rest.peek().is_none() {
            return Ok((bulks, count));
        }
        argument.clear();
        if read_argument(&mut rest, &mut argument).is_none() {
            let at = offset + line.len() - rest.len();
            return Err(malformed(at, "a closing quote", "unbalanced quotes in request"));
        }
        write_bulk(&mut bulks, &argument);
        count += 1;
    }
}

/// Returns the positions of the first arguments within the bulks that [`split`] has made of them.
pub(super) fn places(bulks: &[u8]) -> Places {
    let mut arguments = Walk { bulks };
    Places::default().map(|_| {
        let Some(argument) = arguments.next() else { return 0..0 };
        // CR LF separates it from the rest.
        let end = bulks.len() - arguments.bulks.len() - 2;
        end - argument.len()..end
    })
}

type Bytes<'l> = Peekable<Iter<'l, u8>>;

/// Reads up to the end of one argument; `None` if a quote is not closed, or has no blank after it.
fn read_argument(rest: &mut Bytes<'_>, argument: &mut Vec<u8>) -> Option<()> {
    loop {
        match rest.next() {
            None | Some(b' ' | b'\n' | b'\r' | b'\t') => return Some(()),
            Some(b'"') => return read_double_quoted(rest, argument),
            Some(b'\'') => return read_single_quoted(rest, argument),
            Some(&byte) => argument.push(byte),
        }
    }
}

fn read_double_quoted(rest: &mut Bytes<'_>, argument: &mut Vec<u8>) -> Option<()> {
    loop {
        match rest.next()? {
            b'"' => return ends_argument(rest),
            b'\\' => {
                let byte = read_hexadecimal(rest).or_else(|| rest.next().copied().map(unescape))?;
                argument.push(byte);
            }
            &byte => argument.push(byte),
        }
    }
}

fn read_single_quoted(rest: &mut Bytes<'_>, argument: &mut Vec<u8>) -> Option<()> {
    loop {
        match rest.next()? {
            b'\'' => return ends_argument(rest),
            b'\\' if rest.next_if_eq(&&b'\'').is_some() => argument.push(b'\''),
            &byte => argument.push(byte),
        }
    }
}

fn ends_argument(rest: &mut Bytes<'_>) -> Option<()> {
    rest.peek().is_none_or(|byte| is_blank(**byte)).then_some(())
}

/// Reads `xHH` after a backslash. Takes nothing if it is not that, since `\xyz` means `xyz`.
fn read_hexadecimal(rest: &mut Bytes<'_>) -> Option<u8> {
    let mut ahead = rest.clone();
    ahead.next_if_eq(&&b'x')?;
    let high = char::from(*ahead.next()?).to_digit(16)?;
    let low = char::from(*ahead.next()?).to_digit(16)?;
    *rest = ahead;
    u8::try_from(high * 16 + low).ok()
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}
