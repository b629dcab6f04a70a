//! One item: the meta get that requests all of it, and the replies to a client.

use super::{PROTOCOL, reply::Meta};
use crate::{Error, Result};

/// An item as the server returned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The client's flags.
    pub flags: u32,
    /// Remaining lifetime in seconds, rounded as the server does; `None`: unlimited.
    pub lives_s: Option<u64>,
    /// Its value.
    pub value: Vec<u8>,
}

/// The request for an item, its flags and its lifetime. The item comes with the number: datagrams
/// have numbers of 16 bits, so a late answer to an earlier request may look like the one to this.
pub fn question(key: &[u8], number: u64) -> Vec<u8> {
    [b"mg ", key, format!(" O{number:x} t f v\r\n").as_bytes()].concat()
}

/// The answer to [`question`]: the item, or `None` if the server has none.
///
/// # Errors
/// It is neither, for example an error of the server, or the item answers a request with another
/// number.
pub fn answer(payload: &[u8], number: u64) -> Result<Option<Item>> {
    if payload == b"EN\r\n" {
        return Ok(None);
    }
    read(payload, number).map(Some).ok_or_else(|| Error::Malformed {
        protocol: PROTOCOL,
        offset: 0,
        expected: "EN, or VA with a size, the O of the request, t and f, and a value",
        got: String::from_utf8_lossy(payload.get(..40).unwrap_or(payload))
            .escape_debug()
            .to_string(),
    })
}

fn read(payload: &[u8], number: u64) -> Option<Item> {
    let meta = Meta::parse(payload)?;
    let value = meta.value?.to_vec();
    let (mut flags, mut lives_s, mut answered) = (None, None, None);
    for (letter, token) in meta.flags() {
        let token = std::str::from_utf8(token).ok()?;
        match (letter, token) {
            (b't', "-1") => lives_s = Some(None),
            (b't', seconds) => lives_s = Some(Some(seconds.parse().ok()?)),
            (b'f', flag) => flags = Some(flag.parse().ok()?),
            (b'O', number) => answered = u64::from_str_radix(number, 16).ok(),
            _ => return None,
        }
    }
    (answered == Some(number)).then_some(())?;
    Some(Item { flags: flags?, lives_s: lives_s?, value })
}

impl Item {
    /// Its part of the answer to `get`: the line, the data, the line end.
    pub fn get_text(&self, key: &[u8]) -> Vec<u8> {
        let mut out = [b"VALUE ", key].concat();
        out.extend(format!(" {} {}\r\n", self.flags, self.value.len()).into_bytes());
        out.extend(&self.value);
        out.extend(b"\r\n");
        out
    }

    /// The answer to `mg <key> v`.
    pub fn meta_text(&self) -> Vec<u8> {
        let mut out = format!("VA {}\r\n", self.value.len()).into_bytes();
        out.extend(&self.value);
        out.extend(b"\r\n");
        out
    }
}
