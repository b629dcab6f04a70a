//! Server Filter: converts replies for storage, and back.
//!
//! An item is stored as `+`, then flags, unique number, length and spelling of the key as far as
//! the answer has them, each followed by a blank, then the value; an absent item as `-`. `get` and
//! `mg f v` therefore share an entry.

use std::borrow::Cow;

use wire::memcache::{
    base64,
    reply::{Meta, Value},
};

use super::tag::{MetaGet, Parts, Tag};
use crate::stats::NotFilled;

/// How the origin spells the key of an item in a meta reply: as it was written when it was stored.
const BASE64: &[u8] = b"b";
const PLAIN: &[u8] = b"p";

/// An absent item.
pub(super) const ABSENT: &[u8] = b"-";

/// Packs the parts of an item; `None` if one is missing.
pub(super) fn pack(
    parts: Parts,
    words: [Option<&[u8]>; 4],
    value: &[u8],
    packed: &mut Vec<u8>,
) -> Option<()> {
    packed.push(b'+');
    for (_, word) in Parts::WORDS.into_iter().zip(words).filter(|(kind, _)| parts.has(*kind)) {
        packed.extend_from_slice(word?);
        packed.push(b' ');
    }
    if parts.has(Parts::VALUE) {
        packed.extend_from_slice(value);
    }
    Some(())
}

/// Returns the packed parts: flags, unique number, length, spelling of the key; value.
fn unpack(parts: Parts, packed: &[u8]) -> ([&[u8]; 4], &[u8]) {
    let mut rest = packed.get(1..).unwrap_or_default();
    let words = Parts::WORDS.map(|kind| {
        let end = rest.iter().position(|&byte| byte == b' ').filter(|_| parts.has(kind));
        let Some(end) = end else { return b"".as_slice() };
        let (word, behind) = rest.split_at(end);
        rest = behind.get(1..).unwrap_or_default();
        word
    });
    (words, rest)
}

/// Packs a complete reply.
pub(super) fn admit(
    tag: &Tag,
    key: &[u8],
    reply: &[u8],
    packed: &mut Vec<u8>,
) -> Result<(), NotFilled> {
    match tag {
        Tag::Get { unique, many } => {
            let parts = if *unique { Parts::GETS } else { Parts::GET };
            let end: &[u8] = if *many { b"" } else { b"END\r\n" };
            let Some((item, taken)) = Value::first(reply) else {
                return if reply == end { absent(packed) } else { Err(NotFilled::ErrorReply) };
            };
            if item.key != key {
                return Err(NotFilled::OtherKey);
            }
            if reply.get(taken..) != Some(end) {
                return Err(NotFilled::Incomplete);
            }
            pack(parts, [Some(item.flags), item.unique, None, None], item.value, packed)
                .ok_or(NotFilled::Incomplete)
        }
        Tag::MetaGet(asked) => admit_meta(asked, reply, packed),
        _ => Err(NotFilled::Incomplete),
    }
}

fn absent(packed: &mut Vec<u8>) -> Result<(), NotFilled> {
    packed.extend_from_slice(ABSENT);
    Ok(())
}

fn admit_meta(asked: &MetaGet, reply: &[u8], packed: &mut Vec<u8>) -> Result<(), NotFilled> {
    if reply.is_empty() && asked.quiet {
        return absent(packed);
    }
    let meta = Meta::parse(reply).ok_or(NotFilled::ErrorReply)?;
    let code: &[u8] = if asked.parts.has(Parts::VALUE) { b"VA" } else { b"HD" };
    match meta.code {
        b"EN" if !asked.quiet => absent(packed),
        // Stale, or to be replaced by one client: the next client gets another answer.
        _ if is_claimed(&meta) => Err(NotFilled::Incomplete),
        found if found == code => {
            let [flags, unique, length] = [b'f', b'c', b's'].map(|letter| meta.flag(letter));
            let spelling = if meta.flag(b'b').is_some() { BASE64 } else { PLAIN };
            let words = [flags, unique, length, Some(spelling)];
            pack(asked.parts, words, meta.value.unwrap_or_default(), packed)
                .ok_or(NotFilled::Incomplete)
        }
        _ => Err(NotFilled::ErrorReply),
    }
}

/// Whether the item is stale, or is to be replaced by one client.
pub(super) fn is_claimed(meta: &Meta<'_>) -> bool {
    meta.flags().any(|(letter, _)| matches!(letter, b'W' | b'X' | b'Z'))
}

/// Rebuilds the reply to `tag` about `key`.
#[inline]
pub(super) fn answer(tag: &Tag, key: &[u8], packed: &[u8], out: &mut Vec<u8>) {
    match tag {
        Tag::Get { unique, many } => {
            if packed != ABSENT {
                let parts = if *unique { Parts::GETS } else { Parts::GET };
                let ([flags, number, ..], value) = unpack(parts, packed);
                out.reserve(key.len() + value.len() + 64);
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.push(b' ');
                out.extend_from_slice(flags);
                out.push(b' ');
                write_number(value.len(), out);
                if *unique {
                    out.push(b' ');
                    out.extend_from_slice(number);
                }
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            if !many {
                out.extend_from_slice(b"END\r\n");
            }
        }
        Tag::MetaGet(asked) if packed == ABSENT => answer_absent(asked, key, out),
        Tag::MetaGet(asked) => answer_meta(asked, key, packed, out),
        _ => {}
    }
}

fn answer_absent(asked: &MetaGet, key: &[u8], out: &mut Vec<u8>) {
    if asked.quiet {
        return;
    }
    out.extend_from_slice(b"EN");
    for (letter, word) in asked.flags() {
        match letter {
            b'k' => write_key(asked.coded, key, out),
            b'O' => write_word(word, out),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn answer_meta(asked: &MetaGet, key: &[u8], packed: &[u8], out: &mut Vec<u8>) {
    let has_value = asked.parts.has(Parts::VALUE);
    let ([flags, unique, length, spelling], value) = unpack(asked.parts, packed);
    if has_value {
        out.extend_from_slice(b"VA ");
        write_number(value.len(), out);
    } else {
        out.extend_from_slice(b"HD");
    }
    for (letter, word) in asked.flags() {
        match letter {
            b'k' => write_key(spelling == BASE64, key, out),
            b'O' => write_word(word, out),
            b'f' | b'c' | b's' => {
                out.extend_from_slice(&[b' ', letter]);
                match letter {
                    b'f' => out.extend_from_slice(flags),
                    b'c' => out.extend_from_slice(unique),
                    _ if has_value => write_number(value.len(), out),
                    _ => out.extend_from_slice(length),
                }
            }
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if has_value {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_key(coded: bool, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b" k");
    if coded {
        base64::encode(key, out);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}

fn write_word(word: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn write_number(number: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (left % 10) as u8;
        }
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

/// Returns the items in `reply`, one for each of `keys` in their order, empty for absent ones;
/// `None` if the reply is anything else.
pub(super) fn split<'a, 'k>(
    keys: impl Iterator<Item = &'k [u8]>,
    reply: &'a [u8],
) -> Option<Vec<Cow<'a, [u8]>>> {
    let mut rest = reply;
    let mut parts = Vec::new();
    for key in keys {
        let first = Value::first(rest).filter(|(item, _)| item.key == key);
        let (part, behind) = rest.split_at(first.map_or(0, |(_, taken)| taken));
        parts.push(Cow::Borrowed(part));
        rest = behind;
    }
    (rest == b"END\r\n").then_some(parts)
}
