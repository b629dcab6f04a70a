//! BSON from the notation of MongoDB's shell: `{_id: 5, price: 5.0, tags: ["a", NumberLong(7)]}`.
//! It does not use the encoder of `wire`, so that a defect there cannot hide itself.

use std::{iter::Peekable, str::Chars};

/// The document at the start of `text`, and the rest of `text`.
pub(crate) fn document(text: &str) -> (Vec<u8>, &str) {
    let mut chars = Text { chars: text.chars().peekable() };
    let (_, bytes) = chars.value();
    let rest: usize = chars.chars.map(char::len_utf8).sum();
    (bytes, text[text.len() - rest..].trim_start())
}

struct Text<'t> {
    chars: Peekable<Chars<'t>>,
}

impl Text<'_> {
    /// Type byte and bytes of the next value.
    fn value(&mut self) -> (u8, Vec<u8>) {
        match self.next_is() {
            '{' => (0x03, self.elements('}')),
            '[' => (0x04, self.elements(']')),
            '"' => {
                let text = self.quoted();
                (0x02, string(&text))
            }
            '/' => {
                self.chars.next();
                let pattern = self.until(|c| c == '/');
                self.chars.next();
                (0x0B, [pattern.as_bytes(), b"\0\0"].concat())
            }
            c if c == '-' || c.is_ascii_digit() => {
                let number = self.until(|c| !matches!(c, '-' | '+' | '.' | 'e' | '0'..='9'));
                match number.parse::<i32>() {
                    Ok(number) => (0x10, number.to_le_bytes().into()),
                    Err(_) => (0x01, number.parse::<f64>().expect("a number").to_le_bytes().into()),
                }
            }
            _ => self.named(),
        }
    }

    /// `true`, `null`, `NumberLong(5)` and the like.
    fn named(&mut self) -> (u8, Vec<u8>) {
        let name = self.until(|c| !c.is_ascii_alphanumeric());
        if self.chars.next_if_eq(&'(').is_none() {
            return match name.as_str() {
                "true" => (0x08, vec![1]),
                "false" => (0x08, vec![0]),
                "null" => (0x0A, Vec::new()),
                "NaN" => (0x01, f64::NAN.to_le_bytes().into()),
                "MinKey" => (0xFF, Vec::new()),
                _ => panic!("no value: {name}"),
            };
        }
        let argument = match self.next_is() {
            '"' => self.quoted(),
            _ => self.until(|c| c == ')'),
        };
        assert_eq!(self.chars.next(), Some(')'));
        match name.as_str() {
            "NumberLong" => (0x12, argument.parse::<i64>().expect("a number").to_le_bytes().into()),
            "NumberDecimal" => (0x13, decimal(&argument).into()),
            "Timestamp" => (0x11, argument.parse::<u64>().expect("a number").to_le_bytes().into()),
            "ObjectId" => {
                let byte = |at| u8::from_str_radix(&argument[at..at + 2], 16).expect("digits");
                (0x07, (0..24).step_by(2).map(byte).collect())
            }
            // The text itself, where the shell takes base64; `\0` is a NUL byte.
            "Binary" => {
                let bytes = argument.replace("\\0", "\0").into_bytes();
                (0x05, [&(bytes.len() as i32).to_le_bytes()[..], &[0], &bytes].concat())
            }
            "UUID" => (0x05, [&16_i32.to_le_bytes()[..], &[4; 17]].concat()),
            _ => panic!("no type: {name}"),
        }
    }

    fn elements(&mut self, end: char) -> Vec<u8> {
        self.chars.next();
        let mut bytes = vec![0; 4];
        let mut index = 0;
        loop {
            if self.next_is() == end {
                self.chars.next();
                break;
            }
            let name = match end {
                ']' => index.to_string(),
                _ => {
                    let name = match self.next_is() {
                        '"' => self.quoted(),
                        _ => self.until(|c| c == ':'),
                    };
                    assert_eq!(self.next_is(), ':', "after {name}");
                    self.chars.next();
                    name
                }
            };
            index += 1;
            let (kind, value) = self.value();
            bytes.push(kind);
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.extend(value);
            if self.next_is() == ',' {
                self.chars.next();
            }
        }
        bytes.push(0);
        let length = bytes.len() as i32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn quoted(&mut self) -> String {
        self.chars.next();
        let text = self.until(|c| c == '"');
        self.chars.next();
        text
    }

    fn until(&mut self, ends: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(next) = self.chars.next_if(|next| !ends(*next)) {
            text.push(next);
        }
        text
    }

    fn next_is(&mut self) -> char {
        while self.chars.next_if(|next| next.is_whitespace()).is_some() {}
        *self.chars.peek().expect("more text")
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as i32 + 1).to_le_bytes()[..], text.as_bytes(), &[0]].concat()
}

/// IEEE 754 decimal128 in binary integer decimal encoding; for numbers of a few digits.
fn decimal(text: &str) -> [u8; 16] {
    let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u128);
    let coefficient: u128 = text.replace('.', "").parse().expect("a number");
    (((6_176 - fraction) << 113) | coefficient).to_le_bytes()
}
