//! The answers stored under one key.
//!
//! A key of a database has more than one answer: each projection of a document, each command of a
//! Redis key, each user. All are stored as one value, so that a write drops all of them at once:
//!
//! ```text
//! value  := record* last                     newest first
//! record := number(2 * length(variant) + 1) variant number(length(answer)) answer
//! last   := number(2 * length(variant))     variant answer to the end of the value
//! number := 7 bits a byte, lowest first, high bit set if more follow
//! ```
//!
//! The common key has one answer, and its framing is one byte.
//!
//! Decision: `docs/decisions/0003-cache-entries.md`.

use std::{borrow::Cow, iter, time::Duration};

use crate::principal::Principal;

/// Maximum number of answers stored under one key; the oldest is dropped first.
pub(crate) const VARIANTS_MAX: usize = 64;

/// Returns the answer in `value` that `principal` may be given at `now`. No other function takes
/// answers out of storage.
#[inline]
pub(crate) fn answer_to<'v>(
    principal: &Principal,
    value: &'v [u8],
    variant: &[u8],
    now: Duration,
) -> Option<&'v [u8]> {
    let answer = find(value, principal.mark(), variant)?;
    if principal.lives().is_none() {
        return Some(answer);
    }
    let (until, answer) = answer.split_first_chunk()?;
    (now.as_nanos() < u64::from_le_bytes(*until).into()).then_some(answer)
}

/// Encodes the answer to a question asked at `asked_at` for storage. If the receiver's rights are
/// known only because it was given this answer, the time until which that proof holds is prepended.
pub(crate) fn signed<'a>(
    principal: &Principal,
    answer: &'a [u8],
    asked_at: Duration,
) -> Cow<'a, [u8]> {
    let Some(lives) = principal.lives() else { return Cow::Borrowed(answer) };
    let until = asked_at.saturating_add(lives).as_nanos();
    let until = u64::try_from(until).unwrap_or(u64::MAX).to_le_bytes();
    Cow::Owned([until.as_slice(), answer].concat())
}

/// The variants stored in `value`, marks included, and their answers as [`signed`] made them.
pub(crate) fn listed(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    records(value).map(|record| (record.variant, record.answer))
}

/// The time until which an answer that [`signed`] made proves its receiver's right to it.
pub(crate) fn proves_until(signed: &[u8]) -> Option<Duration> {
    let until = u64::from_le_bytes(*signed.first_chunk()?);
    Some(Duration::from_nanos(until))
}

/// The answer stored in `value` for the variant that `mark` and `variant` make together.
#[must_use]
fn find<'a>(value: &'a [u8], mark: &[u8], variant: &[u8]) -> Option<&'a [u8]> {
    records(value).find(|record| record.is(mark, variant)).map(|record| record.answer)
}

/// Writes to `out` the new value after `variant` gets `answer`: the answer is replaced in place,
/// and older answers are kept while they fit into `bytes_max`.
pub(crate) fn put(
    value: &[u8],
    variant: &[u8],
    answer: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) {
    out.clear();
    let older = records(value).filter(|record| !record.is(&[], variant));
    let mut older = older.take(VARIANTS_MAX - 1);
    let mut record = Record { variant, answer };
    loop {
        // Room for this record and the next, as far as the next is known.
        let bytes =
            |record: &Record<'_>| FRAMING_BYTES_MAX + record.variant.len() + record.answer.len();
        let next =
            older.next().filter(|next| out.len() + bytes(&record) + bytes(next) <= bytes_max);
        let Some(next) = next else { break push(&record, true, out) };
        push(&record, false, out);
        record = next;
    }
}

/// Maximum number of bytes of a record besides variant and answer.
const FRAMING_BYTES_MAX: usize = 20;

struct Record<'a> {
    variant: &'a [u8],
    answer: &'a [u8],
}

impl Record<'_> {
    /// Nearly all variants are empty, and comparing two empty ones is a special case: C's `memcmp`
    /// loads from both addresses, an empty buffer points to no memory, and the processor takes 40
    /// ns to recover.
    #[inline]
    fn is(&self, mark: &[u8], variant: &[u8]) -> bool {
        self.variant.len() == mark.len() + variant.len()
            && (self.variant.is_empty()
                || (self.variant.starts_with(mark) && self.variant.ends_with(variant)))
    }
}

fn records(mut value: &[u8]) -> impl Iterator<Item = Record<'_>> {
    iter::from_fn(move || {
        let head = take_number(&mut value)?;
        let variant = take(&mut value, head >> 1)?;
        let answer_bytes = if head & 1 == 0 { value.len() } else { take_number(&mut value)? };
        let answer = take(&mut value, answer_bytes)?;
        Some(Record { variant, answer })
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (part, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(part)
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0usize;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn push(record: &Record<'_>, last: bool, out: &mut Vec<u8>) {
    push_number(record.variant.len() as u64 * 2 + u64::from(!last), out);
    out.extend_from_slice(record.variant);
    if !last {
        push_number(record.answer.len() as u64, out);
    }
    out.extend_from_slice(record.answer);
}

/// Appends a number, seven bits a byte, lowest first.
fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{VARIANTS_MAX, find, put};

    proptest! {
        #[test]
        fn behaves_like_a_map_of_the_newest(puts in prop::collection::vec((0u16..90, 0usize..300), 0..200)) {
            let mut value = Vec::new();
            let mut model: Vec<(u16, Vec<u8>)> = Vec::new();
            for (variant, answer_bytes) in puts {
                let answer = vec![variant as u8; answer_bytes];
                let mut next = Vec::new();
                put(&value, &variant.to_be_bytes(), &answer, usize::MAX, &mut next);
                value = next;
                model.retain(|(other, _)| *other != variant);
                model.insert(0, (variant, answer));
                model.truncate(VARIANTS_MAX);
            }
            for variant in 0u16..90 {
                let expected = model.iter().find(|(other, _)| *other == variant);
                prop_assert_eq!(
                    find(&value, &[], &variant.to_be_bytes()),
                    expected.map(|(_, answer)| answer.as_slice())
                );
            }
        }
    }

    #[test]
    fn older_answers_make_room_when_the_value_would_grow_too_large() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        put(&[], b"a", &[1; 50], 150, &mut one);
        put(&one, b"b", &[2; 60], 150, &mut two);
        assert_eq!(find(&two, b"", b"a"), None);
        assert_eq!(find(&two, b"", b"b"), Some([2; 60].as_slice()));
    }
}
