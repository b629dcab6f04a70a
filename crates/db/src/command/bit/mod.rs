//! Strings seen as bits: bit 0 is the highest of the first byte.

pub(super) mod count;
pub(super) mod field;
pub(super) mod operation;
pub(super) mod position;
pub(super) mod single;

use crate::{
    failure::{Failure, SYNTAX, TOO_LONG},
    keyspace::VALUE_BYTES_MAX,
    number,
};

/// Maximum offset in Redis, in bytes; values are shorter.
const OFFSET_BYTES_MAX: u64 = 512 << 20;

/// Lengthens `value` with zeroes to at least `bytes_min`, unless that exceeds the maximum length of
/// a value.
fn lengthen(value: &mut Vec<u8>, bytes_min: usize) -> Result<(), Failure> {
    if bytes_min > VALUE_BYTES_MAX {
        return Err(TOO_LONG);
    }
    value.resize(value.len().max(bytes_min), 0);
    Ok(())
}

/// The bit offset `argument` says; `#n` counts in fields of `width` bits where there is a width.
fn offset(argument: &[u8], width: Option<u64>) -> Result<u64, Failure> {
    let wrong = || Failure("ERR bit offset is not an integer or out of range".into());
    let (digits, scale) = match (argument, width) {
        ([b'#', digits @ ..], Some(width)) => (digits, width),
        _ => (argument, 1),
    };
    let count = number::parse_integer(digits).and_then(|count| u64::try_from(count).ok());
    let offset = count.and_then(|count| count.checked_mul(scale));
    offset.filter(|offset| offset / 8 < OFFSET_BYTES_MAX).ok_or_else(wrong)
}

/// The bits of `value` from `start` to `end`, both counted from the end where negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// First and last bit; nothing if the first is behind the last.
    first: i64,
    last: i64,
}

impl Span {
    fn whole(value: &[u8]) -> Self {
        Self { first: 0, last: value.len() as i64 * 8 - 1 }
    }

    fn of(value: &[u8], start: i64, end: i64, in_bits: bool) -> Self {
        let unit = if in_bits { 1 } else { 8 };
        let total = value.len() as i64 * 8 / unit;
        let from_end = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
        let (start, end) = (from_end(start), from_end(end).min(total - 1));
        if start > end {
            return Self { first: 0, last: -1 };
        }
        Self { first: start * unit, last: end * unit + unit - 1 }
    }

    fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// The bytes the span touches, those at its ends with the bits outside it set to `fill`.
    fn bytes(self, value: &[u8], fill: bool) -> impl Iterator<Item = u8> {
        let (first, last) = (self.first.max(0) as usize, (self.last + 1).max(0) as usize);
        let (from, to) = (first / 8, last.div_ceil(8).max(first / 8));
        let head = 0xff_u8 >> (first % 8);
        let tail = !(0xff_u8.checked_shr((last - 1).wrapping_rem(8) as u32 + 1).unwrap_or(0));
        value[from..to].iter().enumerate().map(move |(index, byte)| {
            let mut mask = 0xff;
            if index == 0 {
                mask &= head;
            }
            if from + index + 1 == to {
                mask &= tail;
            }
            if fill { byte | !mask } else { byte & mask }
        })
    }
}

/// BYTE or BIT.
fn in_bits(argument: Option<&&[u8]>) -> Result<bool, Failure> {
    match argument {
        None => Ok(false),
        Some(word) if word.eq_ignore_ascii_case(b"BIT") => Ok(true),
        Some(word) if word.eq_ignore_ascii_case(b"BYTE") => Ok(false),
        Some(_) => Err(SYNTAX),
    }
}
