//! Storage format of the records of a target.
//!
//! ```text
//! version 1 | kind 1 | …
//! kind 1, variants: generation u64, names, each u16 length and bytes
//! kind 2, entry:    status u16, received u64 ms, initial age u32 s, asked with u8,
//!                   selecting and headers, each u16 count of (name u16 length, value u32 length),
//!                   then the body
//! ```
//!
//! "Asked with" is 1 for `Authorization` in the request, 2 for `Cookie`, 3 for both. Numbers are
//! little-endian. A record is read only by the version that wrote it: another is a miss.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::{Entry, Selecting, secondary_key};

const VERSION: u8 = 2;
const WITH_AUTHORIZATION: u8 = 1;
const WITH_COOKIE: u8 = 2;

/// The value stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Under a primary key: the origin varies by these headers; see [`crate::secondary_key`].
    Variants {
        /// Which.
        names: Vec<HeaderName>,
        /// Part of the variants' keys: dropping this record drops them all.
        generation: u64,
    },
    /// A response.
    Entry(Entry),
}

/// Bytes that are no record of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a stored response of version {VERSION}, found other data at byte {0}")]
pub struct Damaged(usize);

/// The records of an entry under the keys it is found by, in the order in which they are stored:
/// under the primary key of its target, or, if the origin varies, under that of a variant with its
/// list. `known` is what lies under the primary key; an entry of another list begins a generation.
#[must_use]
pub fn places(
    entry: &Entry,
    primary: &[u8],
    known: Option<&Record>,
    now: Duration,
) -> Vec<(Vec<u8>, Record)> {
    let names: Vec<HeaderName> = entry.selecting().names().cloned().collect();
    let record = Record::Entry(entry.clone());
    if names.is_empty() {
        return vec![(primary.to_vec(), record)];
    }
    let generation = match known {
        Some(Record::Variants { names: known, generation }) if *known == names => *generation,
        _ => now.as_micros() as u64,
    };
    let key = secondary_key(primary, generation, entry.selecting());
    vec![(key, record), (primary.to_vec(), Record::Variants { names, generation })]
}

impl Record {
    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Variants { names, generation } => {
                let mut out = Vec::with_capacity(self.encoded_len());
                out.extend([VERSION, 1]);
                out.extend(generation.to_le_bytes());
                for name in names {
                    put_short(&mut out, name.as_str().as_bytes());
                }
                out
            }
            Self::Entry(entry) => encode(entry, self.encoded_len()),
        }
    }

    /// Length of [`encode`](Self::encode)'s result, in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        const SHORT: usize = 2;
        match self {
            Self::Variants { names, .. } => {
                10 + names.iter().map(|name| SHORT + name.as_str().len()).sum::<usize>()
            }
            Self::Entry(entry) => {
                let field =
                    |name: &HeaderName, value: usize| SHORT + name.as_str().len() + 4 + value;
                let selecting =
                    entry.selecting.0.iter().map(|(name, value)| field(name, value.len()));
                let headers = entry.headers.iter().map(|(name, value)| field(name, value.len()));
                let fields = selecting.chain(headers).sum::<usize>();
                17 + 2 * SHORT + fields + entry.body.len()
            }
        }
    }

    /// Whether `bytes` are a response that was received by then.
    pub(crate) fn is_from_before(bytes: &[u8], then: Duration) -> bool {
        let (kind, rest) = bytes.split_at_checked(4).unwrap_or_default();
        let received = rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        kind.starts_with(&[VERSION, 2])
            && received.is_some_and(|ms| u128::from(ms) <= then.as_millis())
    }

    /// Decodes a stored record; a body shares `bytes`' memory.
    ///
    /// # Errors
    /// Another version wrote it, or it is damaged.
    pub fn decode(bytes: &Bytes) -> Result<Self, Damaged> {
        let mut reader = Reader { bytes, at: 0 };
        let record = reader.record().ok_or(Damaged(reader.at))?;
        Ok(record)
    }
}

fn encode(entry: &Entry, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    out.extend([VERSION, 2]);
    out.extend(entry.status.as_u16().to_le_bytes());
    out.extend((entry.received.as_millis() as u64).to_le_bytes());
    out.extend(u32::try_from(entry.initial_age.as_secs()).unwrap_or(u32::MAX).to_le_bytes());
    let authorized = if entry.authorized { WITH_AUTHORIZATION } else { 0 };
    out.push(authorized | if entry.with_cookie { WITH_COOKIE } else { 0 });
    out.extend((entry.selecting.0.len() as u16).to_le_bytes());
    for (name, value) in &entry.selecting.0 {
        put_field(&mut out, name, value);
    }
    out.extend((entry.headers.len() as u16).to_le_bytes());
    for (name, value) in &entry.headers {
        put_field(&mut out, name, value.as_bytes());
    }
    out.extend(&entry.body);
    out
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}

fn put_field(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    put_short(out, name.as_str().as_bytes());
    out.extend((value.len() as u32).to_le_bytes());
    out.extend(value);
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    fn record(&mut self) -> Option<Record> {
        if self.number::<1>()? != u64::from(VERSION) {
            return None;
        }
        Some(match self.number::<1>()? {
            1 => {
                let (generation, mut names) = (self.number::<8>()?, Vec::new());
                while self.at < self.bytes.len() {
                    names.push(self.name()?);
                }
                Record::Variants { names, generation }
            }
            2 => Record::Entry(self.entry()?),
            _ => return None,
        })
    }

    fn entry(&mut self) -> Option<Entry> {
        let status = StatusCode::from_u16(self.number::<2>()? as u16).ok()?;
        let received = Duration::from_millis(self.number::<8>()?);
        let initial_age = Duration::from_secs(self.number::<4>()?);
        let asked_with = self.number::<1>()? as u8;
        let mut selecting = Vec::new();
        for _ in 0..self.number::<2>()? {
            let (name, value) = self.field()?;
            selecting.push((name, value.to_vec()));
        }
        let mut headers = HeaderMap::new();
        for _ in 0..self.number::<2>()? {
            let (name, value) = self.field()?;
            headers.try_append(name, HeaderValue::from_bytes(value).ok()?).ok()?;
        }
        let body = self.bytes.slice(self.at..);
        let authorized = asked_with & WITH_AUTHORIZATION != 0;
        let with_cookie = asked_with & WITH_COOKIE != 0;
        let selecting = Selecting(selecting);
        Some(Entry {
            status,
            headers,
            selecting,
            received,
            initial_age,
            authorized,
            with_cookie,
            body,
        })
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..)?.get(..length)?;
        self.at += length;
        Some(taken)
    }

    fn number<const BYTES: usize>(&mut self) -> Option<u64> {
        let mut number = [0; 8];
        number[..BYTES].copy_from_slice(self.take(BYTES)?);
        Some(u64::from_le_bytes(number))
    }

    fn name(&mut self) -> Option<HeaderName> {
        let length = self.number::<2>()? as usize;
        HeaderName::from_bytes(self.take(length)?).ok()
    }

    fn field(&mut self) -> Option<(HeaderName, &'a [u8])> {
        let name = self.name()?;
        let length = self.number::<4>()? as usize;
        Some((name, self.take(length)?))
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;
    use crate::Receiver;

    fn entry() -> Entry {
        let mut request = HeaderMap::new();
        request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip , br"));
        request.insert(header::COOKIE, HeaderValue::from_static("a=1"));
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding, x-none"));
        headers.append(header::LINK, HeaderValue::from_static("</a>"));
        headers.append(header::LINK, HeaderValue::from_static("</b>"));
        let now = Duration::from_millis(1_700_000_000_123);
        let request = Receiver::new(request);
        let entry = Entry::admit(&request, StatusCode::OK, &headers, now, now).unwrap();
        entry.with_body(Bytes::from_static(b"hello"))
    }

    #[test]
    fn a_response_tells_its_age_as_it_is_stored() {
        let (received, bytes) = (entry().received, Record::Entry(entry()).encode());
        assert!(Record::is_from_before(&bytes, received));
        assert!(!Record::is_from_before(&bytes, received - Duration::from_millis(1)));
        assert!(!Record::is_from_before(&bytes[..11], Duration::MAX));
        let variants = Record::Variants { names: vec![header::ACCEPT], generation: 7 };
        assert!(!Record::is_from_before(&variants.encode(), Duration::MAX));
    }

    #[test]
    fn what_is_written_is_read() {
        let names = vec![header::ACCEPT, header::COOKIE];
        let variants = Record::Variants { names, generation: 7 };
        for record in [variants, Record::Entry(entry())] {
            let encoded = record.encode();
            assert_eq!(encoded.len(), record.encoded_len());
            assert_eq!(Record::decode(&encoded.into()), Ok(record));
        }
    }

    #[test]
    fn a_variant_lies_beside_its_list_and_begins_a_generation_where_the_list_is_another() {
        let (entry, now) = (entry(), Duration::from_secs(9));
        let generation = |known: Option<&Record>| match &places(&entry, b"key", known, now)[..] {
            [(key, Record::Entry(_)), (primary, Record::Variants { generation, .. })] => {
                assert_eq!(*key, secondary_key(b"key", *generation, entry.selecting()));
                assert_eq!(primary, b"key");
                *generation
            }
            other => panic!("{other:?}"),
        };
        let names: Vec<HeaderName> = entry.selecting().names().cloned().collect();
        assert_eq!(generation(None), 9_000_000);
        assert_eq!(generation(Some(&Record::Variants { names, generation: 7 })), 7);
        let other = Record::Variants { names: vec![header::TE], generation: 7 };
        assert_eq!(generation(Some(&other)), 9_000_000);
    }

    #[test]
    fn what_was_stored_is_as_old_as_before_however_old_its_origin_says_it_is() {
        let (asked, now) = (Duration::from_secs(1_800_000_000), Duration::from_secs(1_800_000_001));
        let request = Receiver::new(HeaderMap::new());
        for age in ["2147483647", "2147483648", "4294967295", "7777777777777777"] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, "max-age=1, stale-if-error=9".parse().unwrap());
            headers.insert(header::AGE, age.parse().unwrap());
            let entry = Entry::admit(&request, StatusCode::OK, &headers, asked, now).unwrap();
            let stored = Record::Entry(entry.clone()).encode().into();
            assert_eq!(Record::decode(&stored), Ok(Record::Entry(entry)), "age: {age}");
        }
    }

    #[test]
    fn damage_is_an_error_at_every_byte() {
        let bytes = Bytes::from(Record::Entry(entry()).encode());
        for length in 0..bytes.len() - 5 {
            assert!(Record::decode(&bytes.slice(..length)).is_err(), "{length} bytes are a record");
        }
        let mut old = entry();
        // Exceeds its field: stored as the maximum age.
        old.initial_age = Duration::from_secs(1 << 33);
        let Ok(Record::Entry(read)) = Record::decode(&Record::Entry(old).encode().into()) else {
            panic!("no entry")
        };
        assert_eq!(read.initial_age, Duration::from_secs(u32::MAX.into()));
        let mut other = bytes.to_vec();
        other[0] = VERSION + 1;
        assert_eq!(Record::decode(&other.into()), Err(Damaged(1)));
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 0xff;
            let _ = Record::decode(&flipped.into());
        }
    }
}
