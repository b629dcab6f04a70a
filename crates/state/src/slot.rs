//! The unit of placement: a hash slot of the cluster.

use std::sync::LazyLock;

/// Slots of every Redis or Valkey Cluster.
pub const SLOTS: usize = 16_384;

/// One slot, below [`SLOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of this number, if there is one.
    #[must_use]
    pub fn new(number: usize) -> Option<Self> {
        (number < SLOTS).then_some(Self(number as u16))
    }

    /// The slot that holds `key`: of its hash tag, if it has one.
    ///
    /// # Example
    ///
    /// ```
    /// use state::slot::Slot;
    /// assert_eq!(Slot::of(b"123456789").number(), 12739);
    /// assert_eq!(Slot::of(b"session{42}:bearer"), Slot::of(b"42"));
    /// ```
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        Self(crc16(tag(key).unwrap_or(key)) % SLOTS as u16)
    }

    /// A hash tag of its keys: the smallest number that is one.
    ///
    /// # Example
    ///
    /// ```
    /// use state::slot::Slot;
    /// let slot = Slot::of(b"session{42}:bearer");
    /// assert_eq!(Slot::of(format!("{{{}}}", slot.tag()).as_bytes()), slot);
    /// ```
    #[must_use]
    pub fn tag(self) -> u32 {
        static TAGS: LazyLock<[u32; SLOTS]> = LazyLock::new(|| {
            let (mut tags, mut found, mut number) = ([u32::MAX; SLOTS], 0, 0);
            while found < SLOTS {
                let slot = Slot::of(number.to_string().as_bytes());
                if let Some(tag) = tags.get_mut(slot.number()).filter(|tag| **tag == u32::MAX) {
                    *tag = number;
                    found += 1;
                }
                number += 1;
            }
            tags
        });
        TAGS.get(self.number()).copied().unwrap_or_default()
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }
}

/// Returns the bytes between the first `{` and the first `}` after it, unless there are none: keys
/// with the same tag share a slot.
#[must_use]
pub fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = key.get(open + 1..)?;
    let close = rest.iter().position(|&byte| byte == b'}')?;
    rest.get(..close).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM, as the cluster specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        let index = (crc >> 8) ^ u16::from(byte);
        crc << 8 ^ TABLE.get(usize::from(index)).copied().unwrap_or_default()
    })
}

static TABLE: [u16; 256] = table();

#[expect(clippy::indexing_slicing, reason = "runs in the compiler, where a panic is a build error")]
const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        for (key, slot) in [("", 0), ("foo", 12182), ("bar", 5061), ("{user1000}.following", 3443)]
        {
            assert_eq!(Slot::of(key.as_bytes()).number(), slot, "{key}");
        }
    }

    #[test]
    fn only_the_first_braces_that_hold_something_make_a_tag() {
        for (key, tag_of_it) in [
            ("foo{}{bar}", None),
            ("foo{{bar}}zap", Some("{bar")),
            ("foo{bar}{zap}", Some("bar")),
            ("foo{bar", None),
            ("}foo{bar}", Some("bar")),
        ] {
            assert_eq!(tag(key.as_bytes()), tag_of_it.map(str::as_bytes), "{key}");
        }
    }
}
