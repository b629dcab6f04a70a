//! The answers stored under one key.
//!
//! A key of a database has more than one answer: each projection of a document, each command of a
//! Redis key, each user. All are stored as one value, so that a write drops all of them at once:
//!
//! ```text
//! value  := record*                        newest first
//! record := length(variant) variant length(answer) answer
//! length := 7 bits a byte, lowest first, high bit set if more follow
//! ```

use std::iter;

/// At most this many answers are stored under one key; the oldest makes room.
pub(crate) const VARIANTS_MAX: usize = 64;

/// The answer stored for `variant` in `value`.
#[must_use]
pub(crate) fn find<'a>(value: &'a [u8], variant: &[u8]) -> Option<&'a [u8]> {
    records(value).find(|record| record.variant == variant).map(|record| record.answer)
}

/// Writes to `out` what `value` becomes when `variant` gets `answer`: replaced where it stood,
/// older answers kept while they fit `bytes_max`.
pub(crate) fn put(
    value: &[u8],
    variant: &[u8],
    answer: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) {
    out.clear();
    push(variant, answer, out);
    let older = records(value).filter(|record| record.variant != variant);
    for record in older.take(VARIANTS_MAX - 1) {
        let length = out.len();
        push(record.variant, record.answer, out);
        if out.len() > bytes_max {
            out.truncate(length);
            break;
        }
    }
}

struct Record<'a> {
    variant: &'a [u8],
    answer: &'a [u8],
}

fn records(mut value: &[u8]) -> impl Iterator<Item = Record<'_>> {
    iter::from_fn(move || {
        let variant = take(&mut value)?;
        let answer = take(&mut value)?;
        Some(Record { variant, answer })
    })
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0usize;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

fn push(variant: &[u8], answer: &[u8], out: &mut Vec<u8>) {
    for part in [variant, answer] {
        let mut length = part.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(part);
    }
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
                    find(&value, &variant.to_be_bytes()),
                    expected.map(|(_, answer)| answer.as_slice())
                );
            }
        }
    }

    #[test]
    fn older_answers_make_room_when_the_value_would_grow_too_large() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        put(&[], b"a", &[1; 50], 100, &mut one);
        put(&one, b"b", &[2; 60], 100, &mut two);
        assert_eq!(find(&two, b"a"), None);
        assert_eq!(find(&two, b"b"), Some([2; 60].as_slice()));
    }
}
