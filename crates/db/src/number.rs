//! Numbers as clients write them, read as strictly as Redis reads them.

use crate::failure::{Failure, NOT_A_FLOAT, NOT_AN_INTEGER};
use rustc_apfloat::{Float, Round, Status, ieee::X87DoubleExtended};

/// The integer `text` says: no blanks, no plus sign, no leading zeros, within 64 bits.
pub(crate) fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_integer(text).ok_or(NOT_AN_INTEGER)
}

/// Like [`integer`], `None` for anything else.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A `long double` of the machine Redis runs on: 80 bits.
#[derive(Clone, Copy)]
pub(crate) struct LongDouble(X87DoubleExtended);

impl LongDouble {
    /// Parses `text`; spaces and "nan" are errors.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(text).map_err(|_| NOT_A_FLOAT)?;
        let unsigned = text.trim_start_matches(['+', '-']);
        if text.len() - unsigned.len() > 1 || unsigned.len() > DIGITS_MAX {
            return Err(NOT_A_FLOAT);
        }
        let lower = unsigned.to_ascii_lowercase();
        let magnitude = if lower == "inf" || lower == "infinity" {
            X87DoubleExtended::INFINITY
        } else {
            let plain =
                lower.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-'));
            let starts = lower.starts_with(|first: char| first.is_ascii_digit() || first == '.');
            if !plain || !starts || !lower.contains(|each: char| each.is_ascii_digit()) {
                return Err(NOT_A_FLOAT);
            }
            let read = X87DoubleExtended::from_str_r(&lower, Round::NearestTiesToEven);
            let read = read.map_err(|_| NOT_A_FLOAT)?;
            if read.status.contains(Status::OVERFLOW) {
                return Err(NOT_A_FLOAT);
            }
            read.value
        };
        Ok(Self(if text.starts_with('-') { -magnitude } else { magnitude }))
    }

    /// The sum, unless it is not a number or infinite.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let sum = (self.0 + other.0).value;
        sum.is_finite().then_some(Self(sum))
    }

    /// Seventeen digits after the point, without the zeros at the end: what C's `%.17Lf` writes.
    pub(crate) fn text(self) -> String {
        let bits = self.0.to_bits();
        let mantissa = bits as u64;
        // value = mantissa × 2^exponent
        let exponent = ((bits >> 64) & 0x7fff) as i32 - 16_383 - 63;
        let mut scaled = Big::from(mantissa);
        for _ in 0..FRACTION_DIGITS {
            scaled.multiply(10);
        }
        if exponent >= 0 {
            scaled.shift_left(exponent as usize);
        } else {
            scaled.round_right(-exponent as usize);
        }
        let mut digits = scaled.decimal();
        while digits.len() <= FRACTION_DIGITS {
            digits.insert(0, '0');
        }
        digits.insert(digits.len() - FRACTION_DIGITS, '.');
        let text = digits.trim_end_matches('0').trim_end_matches('.');
        if self.0.is_negative() && text != "0" { format!("-{text}") } else { text.to_owned() }
    }
}

const FRACTION_DIGITS: usize = 17;
/// Maximum length of a number's text.
const DIGITS_MAX: usize = 5_000;

/// A number of any size, its least part first: just enough arithmetic to print a float exactly.
struct Big(Vec<u32>);

impl From<u64> for Big {
    fn from(value: u64) -> Self {
        Self(vec![value as u32, (value >> 32) as u32])
    }
}

impl Big {
    fn multiply(&mut self, by: u32) {
        let mut carry = 0;
        for part in &mut self.0 {
            let product = u64::from(*part) * u64::from(by) + carry;
            *part = product as u32;
            carry = product >> 32;
        }
        self.0.push(carry as u32);
    }

    fn shift_left(&mut self, bits: usize) {
        self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
        self.multiply(1 << (bits % 32));
    }

    /// Divides by a power of two, to the nearest, ties to even.
    fn round_right(&mut self, bits: usize) {
        let bit = |big: &Self, at: usize| {
            big.0.get(at / 32).is_some_and(|part| part >> (at % 32) & 1 == 1)
        };
        let half = bits > 0 && bit(self, bits - 1);
        let below = (0..bits.saturating_sub(1)).any(|at| bit(self, at));
        let odd = bit(self, bits);
        let parts = self.0.len();
        self.0 = (0..parts)
            .map(|index| {
                let low = self.0.get(index + bits / 32).copied().unwrap_or(0);
                let high = self.0.get(index + bits / 32 + 1).copied().unwrap_or(0);
                ((u64::from(high) << 32 | u64::from(low)) >> (bits % 32)) as u32
            })
            .collect();
        if half && (below || odd) {
            for part in &mut self.0 {
                let (sum, carried) = part.overflowing_add(1);
                *part = sum;
                if !carried {
                    break;
                }
            }
        }
    }

    fn decimal(mut self) -> String {
        let mut digits = Vec::new();
        while self.0.iter().any(|&part| part != 0) {
            let mut rest = 0;
            for part in self.0.iter_mut().rev() {
                let value = rest << 32 | u64::from(*part);
                *part = (value / 10) as u32;
                rest = value % 10;
            }
            digits.push(char::from(b'0' + rest as u8));
        }
        digits.iter().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strictly_as_redis_reads_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("", None),
            ("-", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn floats_are_added_and_written_like_a_long_double() {
        for (first, second, expected) in [
            ("3", "1.1", "4.1"),
            ("30000000000", "0.1", "30000000000.09999999962747097"),
            ("5.0e3", "2.0e2", "5200"),
            ("-1.5", "1.5", "0"),
            ("0", "-0.25", "-0.25"),
            ("10.50", "0.1", "10.6"),
            ("1e20", "1", "100000000000000000000"),
            ("0", "1e-18", "0"),
        ] {
            let sum = LongDouble::parse(first.as_bytes()).unwrap();
            let sum = sum.plus(LongDouble::parse(second.as_bytes()).unwrap()).unwrap();
            assert_eq!(sum.text(), expected, "{first} + {second}");
        }
        for wrong in ["", " 1", "1 ", "nan", "abc", "--1", "1e99999", "0x10x", "."] {
            assert!(LongDouble::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
