//! Reads and writes the decimal length after a type byte.

/// Maximum number of digits, more than any length within the limits has; a longer number is refused
/// before its end.
const DIGITS_MAX: u8 = 18;

/// The number after a type byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// The line is incomplete.
    Partial,
    /// A decimal number and its CR LF.
    Value(i64),
    /// `?` and CR LF: the elements follow until an end mark.
    Streamed,
    /// Neither. Leading zeros, `-0` and `+1` are invalid, as in Redis.
    Invalid,
}

/// Reads a length that starts `bytes`; see [`LengthReader::feed`].
#[inline(always)]
pub(super) fn read(bytes: &[u8]) -> (Length, usize) {
    // Nearly every length has one or two digits.
    match *bytes {
        [ones @ b'0'..=b'9', b'\r', b'\n', ..] => (Length::Value(i64::from(ones - b'0')), 3),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            (Length::Value(i64::from(tens - b'0') * 10 + i64::from(ones - b'0')), 4)
        }
        _ => LengthReader::default().feed(bytes),
    }
}

/// Reads one length in chunks; each call continues where the last one stopped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LengthReader {
    value: i64,
    digits: u8,
    negative: bool,
    streamed: bool,
    carriage_return: bool,
}

impl LengthReader {
    /// Returns what was found and how many of `bytes` belong to it. On [`Length::Invalid`] the
    /// count is the offset of the offending byte.
    #[inline]
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (Length, usize) {
        for (offset, &byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' if self.takes_digit() => {
                    self.value = self.value * 10 + i64::from(byte - b'0');
                    self.digits += 1;
                }
                b'\r' if self.digits > 0 || self.streamed => {
                    if self.carriage_return || (self.negative && self.value == 0) {
                        return (Length::Invalid, offset);
                    }
                    self.carriage_return = true;
                }
                b'\n' if self.carriage_return => return (self.found(), offset + 1),
                b'-' if self.is_untouched() => self.negative = true,
                b'?' if self.is_untouched() => self.streamed = true,
                _ => return (Length::Invalid, offset),
            }
        }
        (Length::Partial, bytes.len())
    }

    #[inline]
    fn takes_digit(self) -> bool {
        let leading_zero = self.digits > 0 && self.value == 0;
        !leading_zero && self.digits < DIGITS_MAX && !self.streamed && !self.carriage_return
    }

    fn is_untouched(self) -> bool {
        self.digits == 0 && !self.negative && !self.streamed
    }

    #[inline]
    fn found(self) -> Length {
        if self.streamed {
            Length::Streamed
        } else if self.negative {
            Length::Value(-self.value)
        } else {
            Length::Value(self.value)
        }
    }
}

/// Appends a type byte, a number and CR LF.
pub(super) fn write(out: &mut Vec<u8>, type_byte: u8, length: usize) {
    out.push(type_byte);
    let start = out.len();
    let mut rest = length;
    while rest >= 10 {
        out.push(digit(rest % 10));
        rest /= 10;
    }
    out.push(digit(rest));
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
    out.extend_from_slice(b"\r\n");
}

fn digit(value: usize) -> u8 {
    // Always below ten, so the conversion loses nothing.
    b'0' + (value % 10) as u8
}
