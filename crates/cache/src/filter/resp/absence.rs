//! Answers to reads of keys that do not exist.
//!
//! A probe that finds no key proves that there is none now. The key may have expired between the
//! read and the probe, so the reply is stored only if it is the command's answer for an absent key.

use std::time::Duration;

use crate::{filter::Kept, stats::NotFilled};

/// When what was read expires, by what PTTL, asked at `asked_at`, says of its key; `None` is never.
/// `is_optional`: what has no answer is stored all the same.
pub(super) fn expires_at(
    left_ms: Option<i64>,
    Kept { variant, packed }: Kept<'_>,
    asked_at: Duration,
    is_optional: bool,
) -> Result<Option<Duration>, NotFilled> {
    match left_ms {
        // There is no key, as there was none when it was read.
        Some(-2) if is_absence(variant, packed) => Ok(None),
        Some(-1 | 1..) if is_no_value(variant, packed) => Err(NotFilled::Incomplete),
        Some(-1) => Ok(None),
        // Counted from when it was asked: the origin's clock for it started no earlier.
        Some(left_ms @ 1..) => Ok(Some(asked_at + Duration::from_millis(left_ms.unsigned_abs()))),
        _ if is_optional && !is_no_value(variant, packed) => Ok(None),
        _ => Err(NotFilled::Expiry),
    }
}

/// Commands that count or test: 0.
const ZERO: [&str; 14] = [
    "bitcount",
    "exists",
    "getbit",
    "hexists",
    "hlen",
    "hstrlen",
    "llen",
    "scard",
    "sismember",
    "strlen",
    "xlen",
    "zcard",
    "zcount",
    "zlexcount",
];
/// Commands that look for one element: null, or no element where they may find several.
const NULL: [&str; 8] =
    ["geodist", "hget", "lindex", "lpos", "mget", "zrank", "zrevrank", "zscore"];
/// Commands that list elements: none.
const EMPTY: [&str; 16] = [
    "georadius_ro",
    "georadiusbymember_ro",
    "geosearch",
    "hgetall",
    "hkeys",
    "hvals",
    "lrange",
    "smembers",
    "xrange",
    "xrevrange",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
];

/// Whether `packed` is the answer to the read `variant` for a key that does not exist.
pub(super) fn is_absence(variant: &[u8], packed: &[u8]) -> bool {
    let is = |name: &&str| is_of(variant, name);
    let null = matches!(packed, b"_" | b"*-1\r\n");
    let none = matches!(packed, b"*0\r\n" | b"%0\r\n" | b"~0\r\n");
    match packed {
        _ if variant.is_empty() => null,
        b":0\r\n" => ZERO.iter().any(is),
        _ if null => NULL.iter().any(is),
        _ if none => is(&"lpos") || EMPTY.iter().any(is),
        b"$" => is(&"getrange") || is(&"substr"),
        b"+none\r\n" => is(&"type"),
        _ => false,
    }
}

/// Whether `packed` is the null answer of a command that returns the whole value of its key. It
/// means that the key holds no string.
pub(super) fn is_no_value(variant: &[u8], packed: &[u8]) -> bool {
    packed == b"_" && (variant.is_empty() || is_of(variant, "mget"))
}

/// Whether `variant`, which begins with a version and the command unless it is that of MGET, is one
/// of the command `name`.
fn is_of(variant: &[u8], name: &str) -> bool {
    let named = match variant.first() {
        Some(2 | 3) => variant.get(1..).unwrap_or_default(),
        _ => variant,
    };
    named.strip_prefix(name.as_bytes()).is_some_and(are_options)
}

/// Whether `options` are valid: each with its length before it, as stored.
fn are_options(mut options: &[u8]) -> bool {
    while let Some((length, rest)) = options.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some(rest) = rest.get(length..) else { return false };
        options = rest;
    }
    options.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{is_absence, is_no_value};

    fn variant(command: &str, options: &[&str]) -> Vec<u8> {
        let mut variant = vec![2];
        variant.extend_from_slice(command.as_bytes());
        for option in options {
            variant.extend_from_slice(&(option.len() as u32).to_le_bytes());
            variant.extend_from_slice(option.as_bytes());
        }
        variant
    }

    #[test]
    fn only_what_is_said_of_an_absent_key_is_absence() {
        let long = "l".repeat(0x67);
        let cases: [(&str, &[&str], &str, bool); 16] = [
            ("strlen", &[], ":0\r\n", true),
            ("strlen", &[], ":5\r\n", false),
            ("exists", &[], ":0\r\n", true),
            // The first bit, or the lowest rank, of an existing key.
            ("bitpos", &["1"], ":0\r\n", false),
            ("zrank", &["m"], ":0\r\n", false),
            ("zrank", &["m"], "_", true),
            ("zrank", &["m", "WITHSCORE"], "*-1\r\n", true),
            ("lpos", &["m", "COUNT", "0"], "*0\r\n", true),
            ("hgetall", &[], "%0\r\n", true),
            ("hget", &["f"], "_", true),
            ("hget", &["f"], "*0\r\n", false),
            ("getrange", &["0", "1"], "$", true),
            ("type", &[], "+none\r\n", true),
            ("json.get", &[], "_", false),
            // A command whose name is a prefix of another, and an option whose length equals the
            // code of a letter.
            ("hgetex", &["f"], "_", false),
            ("hget", &[&long], "_", true),
        ];
        for (command, options, packed, expected) in cases {
            let variant = variant(command, options);
            assert_eq!(is_absence(&variant, packed.as_bytes()), expected, "{command} {packed}");
        }
        assert!(is_absence(b"", b"_") && !is_absence(b"", b"$") && !is_absence(b"", b"$_"));
        assert!(is_no_value(b"mget", b"_") && is_no_value(b"", b"_"));
        assert!(!is_no_value(&variant("hget", &["f"]), b"_"));
    }
}
