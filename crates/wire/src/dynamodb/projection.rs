//! The attributes that a reply has, in canonical form.
//!
//! ```text
//! all        := "*"
//! attributes := "a" (length(2) name)*
//! expression := "e" path ("," path)*
//! path       := name | path "." name | path "[" digits "]"
//! name       := "n" length(2) bytes        by a placeholder
//!             | "w" length(2) bytes        as it is: the origin refuses reserved words
//! ```

use super::value::{Members, Text};

/// Longest expression that is read: that of the origin.
const EXPRESSION_BYTES_MAX: usize = 4 << 10;
/// Maximum number of placeholders of a request, and of attributes in a list.
const NAMES_MAX: usize = 128;

/// What a request states about the attributes that it wants.
pub(super) enum Projection<'r, 'a> {
    All,
    Attributes(&'r [Text<'a>]),
    Expression(&'r str, Option<&'r Members<'a, Text<'a>>>),
}

impl<'r, 'a> Projection<'r, 'a> {
    /// What these members of a request state: `ProjectionExpression`, `ExpressionAttributeNames`,
    /// `AttributesToGet`. `None` if the origin refuses them together.
    pub(super) fn of(
        expression: Option<&'r Text<'a>>,
        names: Option<&'r Members<'a, Text<'a>>>,
        attributes: Option<&'r [Text<'a>]>,
    ) -> Option<Self> {
        match (expression, attributes) {
            (None, None) if names.is_none() => Some(Self::All),
            (Some(text), None) => Some(Self::Expression(&text.0, names)),
            (None, Some(attributes)) if names.is_none() => Some(Self::Attributes(attributes)),
            _ => None,
        }
    }
}

/// Appends the canonical form of `projection`; `None` if the origin refuses it, or may.
pub(super) fn write(projection: &Projection<'_, '_>, out: &mut Vec<u8>) -> Option<()> {
    match projection {
        Projection::All => out.push(b'*'),
        Projection::Attributes(names) => {
            if !(1..=NAMES_MAX).contains(&names.len()) {
                return None;
            }
            out.push(b'a');
            names.iter().try_for_each(|name| write_name(&name.0, out))?;
        }
        Projection::Expression(text, names) => {
            out.push(b'e');
            let names = names.map_or(&[][..], |names| &names.0);
            let mut reader = Reader { rest: text.as_bytes(), names, used: 0, out };
            let is_read = text.len() <= EXPRESSION_BYTES_MAX && names.len() <= NAMES_MAX;
            is_read.then(|| reader.paths()).flatten()?;
            // Each placeholder is used. Twice is an error of the origin too, which is not stored.
            if reader.used.count_ones() as usize != names.len() {
                return None;
            }
        }
    }
    Some(())
}

struct Reader<'r, 'a> {
    rest: &'r [u8],
    names: &'r [(Text<'a>, Text<'a>)],
    /// The placeholders that were used, by their places.
    used: u128,
    out: &'r mut Vec<u8>,
}

impl Reader<'_, '_> {
    fn paths(&mut self) -> Option<()> {
        loop {
            self.name()?;
            loop {
                match self.next() {
                    None => return Some(()),
                    Some(b',') => break self.out.push(b','),
                    Some(b'.') => {
                        self.out.push(b'.');
                        self.name()?;
                    }
                    Some(b'[') => {
                        let digits = self.word(|byte| byte.is_ascii_digit());
                        let number: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
                        self.out.extend_from_slice(format!("[{number}]").as_bytes());
                        self.next().filter(|&next| next == b']')?;
                    }
                    Some(_) => return None,
                }
            }
        }
    }

    /// A name, or a placeholder of one.
    fn name(&mut self) -> Option<()> {
        self.skip_blanks();
        let is_placeholder = self.rest.first() == Some(&b'#');
        if is_placeholder {
            self.next();
        }
        // A blank between the sign and its name is an error of the origin.
        let word = self.rest.iter().take_while(|&&byte| is_letter(byte)).count();
        let (word, rest) = self.rest.split_at_checked(word)?;
        self.rest = rest;
        if !is_placeholder {
            let first = word.first()?;
            self.out.push(b'w');
            let word = std::str::from_utf8(word).ok().filter(|_| first.is_ascii_alphabetic())?;
            return write_name(word, self.out);
        }
        let is_named = |(placeholder, _): &&(Text<'_>, Text<'_>)| {
            placeholder.0.as_bytes().strip_prefix(b"#") == Some(word)
        };
        let mut named = self.names.iter().enumerate().filter(|(_, one)| is_named(one));
        let (place, (_, name)) = named.next().filter(|_| !word.is_empty())?;
        if named.next().is_some() {
            return None;
        }
        self.used |= 1 << place;
        self.out.push(b'n');
        write_name(&name.0, self.out)
    }

    fn next(&mut self) -> Option<u8> {
        self.skip_blanks();
        let (&next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(next)
    }

    fn word(&mut self, belongs: impl Fn(u8) -> bool) -> &[u8] {
        self.skip_blanks();
        let length = self.rest.iter().take_while(|&&byte| belongs(byte)).count();
        let (word, rest) = self.rest.split_at_checked(length).unwrap_or_default();
        self.rest = rest;
        word
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn write_name(name: &str, out: &mut Vec<u8>) -> Option<()> {
    let length = u16::try_from(name.len()).ok().filter(|&length| length > 0)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    Some(())
}
