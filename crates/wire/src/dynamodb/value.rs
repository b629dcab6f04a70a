//! Attribute values, and the canonical bytes of an item's key.
//!
//! ```text
//! key    := table names value*
//! table  := length(1) name
//! names  := count(1) (length(2) name)*     in the order of their bytes
//! value  := type(1) length(2) bytes        one for each name: "S" text, "B" bytes, "N" number
//! number := "0" | ["-"] digits "e" exponent
//! ```
//!
//! Lengths are big-endian. The digits of a number neither begin nor end with zero, so that numbers
//! of the same value have the same bytes.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Maximum number of attributes of a primary key.
const KEY_ATTRIBUTES_MAX: usize = 2;
/// Longest value of a key attribute.
const KEY_BYTES_MAX: usize = 2 << 10;
/// Longest name of a table, in bytes.
const TABLE_BYTES_MAX: usize = 255;
/// Number of significant digits of a number.
const DIGITS_MAX: usize = 38;
/// Longest spelling of a number that is read.
const NUMBER_BYTES_MAX: usize = 512;

/// A string of a JSON text; borrowed from it unless it contains escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfText;
        impl<'de> Visitor<'de> for OfText {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(OfText)
    }
}

/// The members of a JSON object in their order. A name may occur more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members<'a, T>(pub Vec<(Text<'a>, T)>);

impl<T> Members<'_, T> {
    /// The value of the member `name`; `None` if there is none, or more than one.
    #[must_use]
    pub fn one(&self, name: &[u8]) -> Option<&T> {
        let mut named = self.0.iter().filter(|(other, _)| other.0.as_bytes() == name);
        named.next().filter(|_| named.next().is_none()).map(|(_, value)| value)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Members<'a, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfMembers<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMembers<T> {
            type Value = Members<'de, T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(OfMembers(std::marker::PhantomData))
    }
}

/// The value of an attribute, as far as it can be a part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// A string.
    Text(Text<'a>),
    /// A number as it is spelled.
    Number(Text<'a>),
    /// Bytes in base64.
    Bytes(Text<'a>),
    /// Anything else.
    Other,
}

/// The attributes of an item, or of its key.
pub type Attributes<'a> = Members<'a, Value<'a>>;

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfValue;
        impl<'de> Visitor<'de> for OfValue {
            type Value = Value<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object with a type and a value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
                let mut found = None;
                while let Some(Text(kind)) = map.next_key()? {
                    let value = match &*kind {
                        "S" => Value::Text(map.next_value()?),
                        "N" => Value::Number(map.next_value()?),
                        "B" => Value::Bytes(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            Value::Other
                        }
                    };
                    // The origin refuses two types at once.
                    found = Some(if found.is_none() { value } else { Value::Other });
                }
                Ok(found.unwrap_or(Value::Other))
            }
        }
        from.deserialize_map(OfValue)
    }
}

/// Appends the key of the item of `table` with the key `attributes`. Returns whether there is such
/// a key: if not, `out` has any bytes after its former end.
#[must_use]
pub fn write_key(table: &str, attributes: &Attributes<'_>, out: &mut Vec<u8>) -> bool {
    let mut sorted: Vec<&[u8]> = attributes.0.iter().map(|(name, _)| name.0.as_bytes()).collect();
    sorted.sort_unstable();
    if !(1..=KEY_ATTRIBUTES_MAX).contains(&sorted.len()) || !is_table(table) {
        return false;
    }
    out.push(table.len() as u8);
    out.extend_from_slice(table.as_bytes());
    out.push(sorted.len() as u8);
    sorted.iter().all(|name| write_bytes(name, out))
        && sorted.into_iter().all(|name| write_value(attributes.one(name), out))
}

/// Appends the key of an `item` of `table`, whose key attributes have these `names`. Returns
/// whether the item has them: if not, `out` has any bytes after its former end.
#[must_use]
pub fn write_key_of(
    table: &str,
    names: Names<'_>,
    item: &Attributes<'_>,
    out: &mut Vec<u8>,
) -> bool {
    out.push(table.len() as u8);
    out.extend_from_slice(table.as_bytes());
    out.extend_from_slice(names.0);
    is_table(table) && names.each().all(|name| write_value(item.one(name), out))
}

/// Whether this is the plain name of a table. An ARN, which may name a table too, is not.
#[must_use]
pub fn is_table(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=TABLE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// The names of the key attributes of a table, as a key has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'a>(pub &'a [u8]);

impl<'a> Names<'a> {
    /// Table and names of a key.
    #[must_use]
    pub fn of_key(key: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let (&length, rest) = key.split_first()?;
        let (table, rest) = rest.split_at_checked(length.into())?;
        let &count = rest.first()?;
        let mut end = 1;
        for _ in 0..count {
            let length =
                rest.get(end..)?.first_chunk().map(|length| u16::from_be_bytes(*length))?;
            end += 2 + usize::from(length);
        }
        Some((table, Self(rest.get(..end)?)))
    }

    fn each(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0.get(1..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (name, behind) = behind.split_at_checked(u16::from_be_bytes(*length).into())?;
            rest = behind;
            Some(name)
        })
    }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u16::try_from(bytes.len()) else { return false };
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    true
}

fn write_value(value: Option<&Value<'_>>, out: &mut Vec<u8>) -> bool {
    let (kind, bytes) = match value {
        Some(Value::Text(text)) => (b'S', Cow::Borrowed(text.0.as_bytes())),
        Some(Value::Bytes(text)) => match STANDARD.decode(text.0.as_bytes()) {
            Ok(bytes) => (b'B', Cow::Owned(bytes)),
            Err(_) => return false,
        },
        Some(Value::Number(text)) => match number(&text.0) {
            Some(canonical) => (b'N', Cow::Owned(canonical.into_bytes())),
            None => return false,
        },
        Some(Value::Other) | None => return false,
    };
    out.push(kind);
    (1..=KEY_BYTES_MAX).contains(&bytes.len()) && write_bytes(&bytes, out)
}

/// The canonical form of a number; `None` if it is none, or has more than 38 significant digits.
#[must_use]
pub fn number(text: &str) -> Option<String> {
    if text.len() > NUMBER_BYTES_MAX {
        return None;
    }
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (text.get(..at)?, exponent(text.get(at + 1..)?)?),
        None => (text, 0),
    };
    let (sign, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, is_numeral(fraction).then_some(fraction)?),
        None => (unsigned, ""),
    };
    if !is_numeral(whole) {
        return None;
    }
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let dropped = all.len() - all.trim_end_matches('0').len();
    let exponent = exponent - fraction.len() as i64 + dropped as i64;
    (digits.len() <= DIGITS_MAX).then(|| format!("{sign}{digits}e{exponent}"))
}

fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_short = digits.len() <= 6 && is_numeral(digits);
    let count: i64 = digits.parse().ok().filter(|_| is_short)?;
    Some(if text.starts_with('-') { -count } else { count })
}

fn is_numeral(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
