//! Numbers of any BSON type as one value.

use std::fmt::Write;

use super::super::bson::{Element, Kind, integral};

/// A number without its type. Equal numbers are equal values of this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// Fits an `i64`; zero has no sign.
    Integer(i64),
    /// Any other finite number: coefficient times ten to the exponent, no zeros at the
    /// coefficient's end.
    Decimal {
        negative: bool,
        coefficient: u128,
        exponent: i32,
    },
    Nan,
    Infinity {
        negative: bool,
    },
}

impl Number {
    /// The element's value, when it is a number.
    #[inline]
    pub(super) fn of(element: &Element<'_>) -> Option<Self> {
        match element.kind() {
            Kind::Int32 | Kind::Int64 => element.integer().map(Self::Integer),
            Kind::Double => element.f64().map(Self::from_double),
            Kind::Decimal128 => {
                element.value().first_chunk().map(|bytes| from_decimal(u128::from_le_bytes(*bytes)))
            }
            _ => None,
        }
    }

    fn from_double(double: f64) -> Self {
        if let Some(integer) = integral(double) {
            return Self::Integer(integer);
        }
        if double.is_nan() {
            return Self::Nan;
        }
        let negative = double.is_sign_negative();
        if double.is_infinite() {
            return Self::Infinity { negative };
        }
        // MongoDB compares a double with a decimal by the double's first 34 digits, which is all a
        // decimal holds; 17 are enough to tell any two doubles apart.
        let mut digits = Digits::default();
        // Its `write_str` never fails.
        let _ = write!(digits, "{:.33e}", double.abs());
        finite(negative, digits.coefficient, digits.exponent - 33)
    }
}

/// The parts of `d.ddde[-]ddd`, gathered as it is written, so that nothing is allocated.
#[derive(Default)]
struct Digits {
    coefficient: u128,
    exponent: i32,
    exponent_negative: bool,
    in_exponent: bool,
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'e' => self.in_exponent = true,
                b'-' => self.exponent_negative = true,
                b'0'..=b'9' if self.in_exponent => {
                    let digit = i32::from(byte - b'0');
                    let digit = if self.exponent_negative { -digit } else { digit };
                    self.exponent = self.exponent * 10 + digit;
                }
                b'0'..=b'9' => self.coefficient = self.coefficient * 10 + u128::from(byte - b'0'),
                _ => {}
            }
        }
        Ok(())
    }
}

/// IEEE 754-2008 decimal128 in its binary-integer encoding, as BSON has it.
fn from_decimal(bits: u128) -> Number {
    const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;
    const EXPONENT_BIAS: i32 = 6176;
    let negative = bits >> 127 == 1;
    // The five bits behind the sign tell the special values.
    match (bits >> 122) & 0x1F {
        0x1E => return Number::Infinity { negative },
        0x1F => return Number::Nan,
        _ => {}
    }
    let (exponent, coefficient) = if (bits >> 125) & 0b11 == 0b11 {
        // The large form, whose coefficient is always beyond 34 digits.
        ((bits >> 111) & 0x3FFF, u128::MAX)
    } else {
        ((bits >> 113) & 0x3FFF, bits & ((1 << 113) - 1))
    };
    // The standard reads a coefficient beyond 34 digits as zero.
    let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
    // Fourteen bits fit.
    finite(negative, coefficient, exponent as i32 - EXPONENT_BIAS)
}

fn finite(negative: bool, mut coefficient: u128, mut exponent: i32) -> Number {
    if coefficient == 0 {
        return Number::Integer(0);
    }
    while coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    small_integer(negative, coefficient, exponent)
        .map_or(Number::Decimal { negative, coefficient, exponent }, Number::Integer)
}

fn small_integer(negative: bool, coefficient: u128, exponent: i32) -> Option<i64> {
    let scale = 10_u128.checked_pow(u32::try_from(exponent).ok()?)?;
    let magnitude = i128::try_from(coefficient.checked_mul(scale)?).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}
