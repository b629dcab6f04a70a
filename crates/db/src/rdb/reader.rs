//! Reads snapshots, an element at a time.

use std::borrow::Cow;
use std::time::Duration;

use super::checksum::checksum_append;
use super::compression::decompress;
use super::{Entry, MAGIC, STRING, VERSIONS, opcode};
use crate::stored::DATABASES;

/// Longest strings that are read, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest key.
    pub key_bytes_max: usize,
    /// Longest value; also of what is skipped.
    pub value_bytes_max: usize,
}

/// What a snapshot consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// A key with its value.
    Entry(Entry),
    /// Something that is no entry: the header, a fact about the server, sizes of tables.
    Skipped,
    /// The end. What follows is not part of the snapshot.
    End,
}

/// Why a file is not read, or not further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not begin like a snapshot.
    #[error("found {found:?} at offset 0, expected REDIS and a version: it is no RDB file")]
    Foreign {
        /// The first bytes.
        found: String,
    },
    /// A version that is not read.
    #[error(
        "RDB version {found}, expected {} to {}; have redis-server 8 or earlier write it",
        VERSIONS.start(), VERSIONS.end()
    )]
    Version {
        /// The version.
        found: u32,
    },
    /// A value that is no string.
    #[error(
        "key {key:?} of database {database}, at offset {offset}, is {kind}: expected a string, the \
         only type of `enroute db`; delete the key at its server, and save again"
    )]
    Kind {
        /// Offset of its type, in bytes.
        offset: u64,
        /// Its database.
        database: u64,
        /// Its key, as far as it is text.
        key: String,
        /// Its type, with an article.
        kind: String,
    },
    /// Something else that `db` does not have.
    #[error("{what} at offset {offset}: expected keys of `enroute db`, which has none")]
    Unsupported {
        /// Its offset, in bytes.
        offset: u64,
        /// What it is.
        what: &'static str,
    },
    /// More databases than `db` has.
    #[error("database {found} at offset {offset}: expected 0 to {}", DATABASES - 1)]
    Database {
        /// Offset of its number, in bytes.
        offset: u64,
        /// Its number.
        found: u64,
    },
    /// A string that is too long.
    #[error("a string of {bytes} bytes at offset {offset}: expected at most {limit}")]
    TooLong {
        /// Offset of its length, in bytes.
        offset: u64,
        /// Its length, in bytes.
        bytes: u64,
        /// The longest that is read.
        limit: usize,
    },
    /// Bytes that make no sense where they are.
    #[error("damaged at offset {offset}: found {found}, expected {expected}")]
    Damaged {
        /// Their offset.
        offset: u64,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// It has no end.
    #[error("ends at offset {offset}, in the middle: copy the whole file")]
    Truncated {
        /// Its length, in bytes.
        offset: u64,
    },
}

/// Reads one snapshot. It has to be given all of its bytes in order.
#[derive(Debug)]
pub struct Reader {
    limits: Limits,
    /// Offset of the next element, and the checksum of all bytes before it.
    offset: u64,
    checksum: u64,
    database: u64,
}

/// The rest of the bytes, and how far they are read. `None` of its methods: more are needed.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Offset of the first byte in the file.
    offset: u64,
}

/// A length, or one of the encodings that may stand in its place.
enum Length {
    Plain(u64),
    Encoded(u8),
}

type Read<T> = Result<Option<T>, Error>;

/// Returns from the function if more bytes are needed.
macro_rules! more {
    ($read:expr) => {
        match $read {
            Some(read) => read,
            None => return Ok(None),
        }
    };
}

impl<'b> Cursor<'b> {
    fn offset(&self) -> u64 {
        self.offset + self.at as u64
    }

    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes;
        Some(taken)
    }

    fn array<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        self.take(BYTES)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn length(&mut self) -> Read<Length> {
        let offset = self.offset();
        let first = more!(self.byte());
        let low = u64::from(first & 0x3f);
        let length = match (first >> 6, first) {
            (0, _) => Some(low),
            (1, _) => self.byte().map(|byte| low << 8 | u64::from(byte)),
            (_, 0x80) => self.array().map(|bytes| u64::from(u32::from_be_bytes(bytes))),
            (_, 0x81) => self.array().map(u64::from_be_bytes),
            (3, _) => return Ok(Some(Length::Encoded(first & 0x3f))),
            _ => return Err(damaged(offset, format!("{first:#04x}"), "a length")),
        };
        Ok(length.map(Length::Plain))
    }

    /// A length that is a number.
    fn number(&mut self) -> Read<u64> {
        let offset = self.offset();
        match more!(self.length()?) {
            Length::Plain(number) => Ok(Some(number)),
            Length::Encoded(code) => Err(damaged(offset, format!("encoding {code}"), "a number")),
        }
    }

    /// The same, for a string of at most `limit` bytes.
    fn size(&mut self, limit: usize) -> Read<usize> {
        let offset = self.offset();
        let bytes = more!(self.number()?);
        within(offset, bytes, limit).map(Some)
    }

    fn string(&mut self, limit: usize) -> Read<Cow<'b, [u8]>> {
        let offset = self.offset();
        let number = |number: i32| Cow::Owned(number.to_string().into_bytes());
        Ok(match more!(self.length()?) {
            Length::Plain(bytes) => {
                let bytes = within(offset, bytes, limit)?;
                self.take(bytes).map(Cow::Borrowed)
            }
            Length::Encoded(0) => self.array().map(|bytes| number(i8::from_le_bytes(bytes).into())),
            Length::Encoded(1) => {
                self.array().map(|bytes| number(i16::from_le_bytes(bytes).into()))
            }
            Length::Encoded(2) => self.array().map(|bytes| number(i32::from_le_bytes(bytes))),
            Length::Encoded(3) => {
                let compressed = more!(self.size(limit)?);
                let length = more!(self.size(limit)?);
                let compressed = more!(self.take(compressed));
                let text = decompress(compressed, length);
                let expected = "a compressed string of the stated length";
                Some(Cow::Owned(text.ok_or_else(|| damaged(offset, "other bytes", expected))?))
            }
            Length::Encoded(code) => {
                return Err(damaged(offset, format!("encoding {code}"), "a string"));
            }
        })
    }
}

fn damaged(offset: u64, found: impl Into<String>, expected: &'static str) -> Error {
    Error::Damaged { offset, found: found.into(), expected }
}

fn within(offset: u64, bytes: u64, limit: usize) -> Result<usize, Error> {
    let fits = usize::try_from(bytes).ok().filter(|bytes| *bytes <= limit);
    fits.ok_or(Error::TooLong { offset, bytes, limit })
}

impl Reader {
    /// Begins to read a snapshot.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, offset: 0, checksum: 0, database: 0 }
    }

    /// Decodes the next element, which begins at the first of `bytes`, and returns its length;
    /// `None` means that more bytes are needed.
    ///
    /// # Errors
    /// See [`Error`]. Nothing more can be read then.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Option<(Element, usize)>, Error> {
        let mut cursor = Cursor { bytes, at: 0, offset: self.offset };
        let element =
            if self.offset == 0 { header(&mut cursor)? } else { self.element(&mut cursor)? };
        let Some(element) = element else { return Ok(None) };
        let used = cursor.at;
        self.checksum = checksum_append(self.checksum, &bytes[..used]);
        self.offset += used as u64;
        Ok(Some((element, used)))
    }

    /// The error of a file that ends before [`Element::End`].
    #[must_use]
    pub fn truncated(&self, rest: &[u8]) -> Error {
        Error::Truncated { offset: self.offset + rest.len() as u64 }
    }

    fn element(&mut self, cursor: &mut Cursor<'_>) -> Read<Element> {
        let (offset, skipped) = (cursor.offset(), self.limits.value_bytes_max);
        match more!(cursor.byte()) {
            opcode::END => return self.end(cursor),
            opcode::DATABASE => {
                let found = more!(cursor.number()?);
                if found >= u64::from(DATABASES) {
                    return Err(Error::Database { offset, found });
                }
                self.database = found;
            }
            opcode::SIZES => drop((more!(cursor.number()?), more!(cursor.number()?))),
            opcode::SLOT => {
                for _ in 0..3 {
                    more!(cursor.number()?);
                }
            }
            opcode::INFORMATION => {
                drop((more!(cursor.string(skipped)?), more!(cursor.string(skipped)?)));
            }
            opcode::FUNCTION | opcode::FUNCTION_EARLY => {
                return Err(Error::Unsupported { offset, what: "a library of functions" });
            }
            opcode::MODULE => {
                return Err(Error::Unsupported { offset, what: "data of a module" });
            }
            _ => {
                cursor.at -= 1;
                return self.entry(cursor);
            }
        }
        Ok(Some(Element::Skipped))
    }

    /// An entry, with what may precede its type: expiry, and what eviction knows of it.
    fn entry(&self, cursor: &mut Cursor<'_>) -> Read<Element> {
        let mut expires_at = None;
        let (offset, kind) = loop {
            let offset = cursor.offset();
            match more!(cursor.byte()) {
                opcode::EXPIRES_MS => {
                    let at = i64::from_le_bytes(more!(cursor.array()));
                    expires_at = Some(Duration::from_millis(at.max(0) as u64));
                }
                opcode::EXPIRES_S => {
                    let at = i32::from_le_bytes(more!(cursor.array()));
                    expires_at = Some(Duration::from_secs(at.max(0) as u64));
                }
                opcode::FREQUENCY => drop(more!(cursor.byte())),
                opcode::IDLE => drop(more!(cursor.number()?)),
                kind => break (offset, kind),
            }
        };
        if kind >= opcode::SLOT {
            return Err(damaged(offset, format!("code {kind}"), "the type of a value"));
        }
        let key = more!(cursor.string(self.limits.key_bytes_max)?);
        if kind != STRING {
            let (key, kind) = (String::from_utf8_lossy(&key).into_owned(), kind_of(kind));
            return Err(Error::Kind { offset, database: self.database, key, kind });
        }
        let value = more!(cursor.string(self.limits.value_bytes_max)?);
        let (database, key, value) = (self.database as u8, key.into_owned(), value.into_owned());
        Ok(Some(Element::Entry(Entry { database, key, value, expires_at })))
    }

    fn end(&self, cursor: &mut Cursor<'_>) -> Read<Element> {
        let computed = checksum_append(self.checksum, &[opcode::END]);
        let offset = cursor.offset();
        let found = u64::from_le_bytes(more!(cursor.array()));
        // Redis writes zeroes with `rdbchecksum no`.
        if found != computed && found != 0 {
            let found = format!("checksum {found:016x} of the file");
            return Err(damaged(offset, found, "the one computed from its bytes"));
        }
        Ok(Some(Element::End))
    }
}

fn header(cursor: &mut Cursor<'_>) -> Read<Element> {
    const BYTES: usize = MAGIC.len() + 4;
    let foreign = |begun: &[u8]| {
        let found = String::from_utf8_lossy(begun).into_owned();
        Error::Foreign { found }
    };
    // Up to the first wrong byte, so that the error is the same however the bytes arrive.
    let wrong = cursor.bytes.iter().zip(MAGIC).position(|(found, expected)| found != expected);
    if let Some(wrong) = wrong {
        return Err(foreign(&cursor.bytes[..=wrong]));
    }
    let header = more!(cursor.take(BYTES));
    let digits = std::str::from_utf8(&header[MAGIC.len()..]).ok();
    let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let found = digits.and_then(|digits| digits.parse().ok());
    let found = found.ok_or_else(|| foreign(header))?;
    if !VERSIONS.contains(&found) {
        return Err(Error::Version { found });
    }
    Ok(Some(Element::Skipped))
}

/// Name of the type of a value.
fn kind_of(kind: u8) -> String {
    let name = match kind {
        1 | 10 | 14 | 18 => "a list",
        2 | 11 | 20 => "a set",
        3 | 5 | 12 | 17 => "a sorted set",
        4 | 9 | 13 | 16 | 22..=25 => "a hash",
        6 | 7 => "a value of a module",
        15 | 19 | 21 => "a stream",
        _ => return format!("of unknown type {kind}"),
    };
    name.to_owned()
}
