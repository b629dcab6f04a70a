//! The manifest lists the existing segments, so that a missing one is noticed:
//! docs/formats/elastic-store.md.
//!
//! There are two copies, written alternately and in place, each synced before the next is written:
//! whenever the machine stops, one of them is intact. Writing needs no space beyond that of the
//! files, so a full disk does not prevent the removal of a segment.
//!
//! Decision: `docs/decisions/0124-manifest-and-damage.md`.

use super::Error;
use super::record::{u32_at, u64_at};
use crate::blocks::Blocks;
use crate::checksum::checksum;
use crate::device::{Device, FileName};

/// Initial length of both copies: enough for about ten thousand segments.
pub(super) const FILE_BYTES: u64 = 16 << 10;
const HEAD_BYTES: usize = 56;
const CHECKSUM_BYTES: usize = 4;
/// Unit of bytes that a crash leaves completely old or completely new.
pub(super) const SECTOR_BYTES: usize = 512;
const MAGIC: [u8; 7] = *b"enrtman";
const VERSION: u8 = b'1';

/// Contents of one copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Incremented with each write of either copy.
    pub(super) sequence: u64,
    /// Exclusive upper bound of all segment numbers used so far.
    pub(super) next: u64,
    /// The store was closed: every segment is sealed and synced.
    pub(super) closed: bool,
    /// Numbers of the segments that may contain records, ascending.
    pub(super) segments: Vec<u64>,
    /// Numbers of segments without valid contents, ascending; their files may still exist.
    pub(super) given_up: Vec<u64>,
}

/// Reasons why bytes are not a valid copy of the manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// No copy was written there.
    Empty,
    /// A manifest of another version, identified by its last letter.
    Version(u8),
    /// A write of the copy may have been interrupted.
    Torn,
    /// A complete copy that was damaged later.
    Damaged,
}

impl Manifest {
    /// The copy that is written.
    pub(super) fn file(&self) -> FileName {
        FileName::Manifest((self.sequence % 2) as u8)
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.segments.binary_search(&number).is_ok()
    }

    /// Encodes the manifest, padded to whole blocks.
    pub(super) fn blocks(&self) -> Blocks {
        let mut out = Blocks::default();
        self.write(&mut out);
        out
    }

    /// Replaces what `out` holds by [`Self::blocks`].
    pub(super) fn write(&self, out: &mut Blocks) {
        let mut list = Vec::with_capacity(2 * self.segments.len());
        for numbers in [&self.segments, &self.given_up] {
            let before = std::iter::once(&0).chain(numbers);
            numbers.iter().zip(before).for_each(|(number, before)| {
                write_number(number - before, &mut list);
            });
        }
        out.clear();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION]);
        let closed = u64::from(self.closed);
        let counts = [self.segments.len() as u64, self.given_up.len() as u64];
        let words = [list.len() as u64, self.sequence, self.next, closed, counts[0], counts[1]];
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&list);
        let sum = checksum(&[out]);
        out.extend_from_slice(&sum.to_le_bytes());
        out.fill_up(out.len().next_multiple_of(super::segment::BLOCK_BYTES));
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(Wrong::Empty);
        }
        // A short copy is written completely or not at all.
        let broken = || {
            let list = bytes.get(8..16).map_or(0, |bytes| u64_at(bytes, 0));
            let is_short = list <= (SECTOR_BYTES - HEAD_BYTES - CHECKSUM_BYTES) as u64;
            if is_short { Wrong::Damaged } else { Wrong::Torn }
        };
        if bytes.len() < HEAD_BYTES + CHECKSUM_BYTES || bytes[..7] != MAGIC {
            return Err(broken());
        }
        let list_bytes = usize::try_from(u64_at(bytes, 8)).unwrap_or(usize::MAX);
        let end = HEAD_BYTES.saturating_add(list_bytes);
        let sum = bytes.get(end..end.saturating_add(CHECKSUM_BYTES)).ok_or_else(broken)?;
        if u32_at(sum, 0) != checksum(&[&bytes[..end]]) {
            return Err(broken());
        }
        if bytes[7] != VERSION {
            return Err(Wrong::Version(bytes[7]));
        }
        let [sequence, next, closed, count, given_up] =
            [16, 24, 32, 40, 48].map(|at| u64_at(bytes, at));
        let mut list = &bytes[HEAD_BYTES..end];
        let mut numbers = |count| read_numbers(count, &mut list).ok_or(Wrong::Damaged);
        let (segments, given_up) = (numbers(count)?, numbers(given_up)?);
        if !list.is_empty() {
            return Err(Wrong::Damaged);
        }
        Ok(Self { sequence, next, closed: closed != 0, segments, given_up })
    }

    /// Writes the older copy, and syncs it.
    pub(super) fn store(&self, device: &(impl Device + ?Sized)) -> Result<(), Error> {
        let file = self.file();
        let failed = Error::write_failed(file);
        device.write(file, 0, &self.blocks()).and_then(|()| device.sync(file)).map_err(failed)
    }
}

/// Seven bits per byte, lowest first; the highest bit states that more follow.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 1 << 7 {
        out.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads `count` ascending numbers, each stored as the distance from the one before.
fn read_numbers(count: u64, bytes: &mut &[u8]) -> Option<Vec<u64>> {
    let mut number = 0u64;
    (0..count)
        .map(|_| {
            number = number.checked_add(read_number(bytes)?)?;
            Some(number)
        })
        .collect()
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let length = bytes.iter().take(10).position(|byte| byte >> 7 == 0)? + 1;
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(number.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_back_and_a_changed_bit_is_found() {
        for count in [0, 1, 300, 2_000u64] {
            let segments: Vec<u64> = (0..count).map(|at| at * at * at * 7 + 1).collect();
            let manifest = Manifest {
                sequence: 9,
                next: u64::MAX >> 24,
                closed: count == 1,
                segments,
                given_up: vec![5, 9],
            };
            let bytes = manifest.blocks();
            assert_eq!(Manifest::read(&bytes), Ok(manifest.clone()));
            let end = HEAD_BYTES + u64_at(&bytes, 8) as usize + CHECKSUM_BYTES;
            for at in 0..end {
                let mut changed = bytes.to_vec();
                changed[at] ^= 1 << (at % 8);
                let wrong = Manifest::read(&changed).expect_err("a changed bit");
                let is_short = count < 2;
                assert!(wrong == Wrong::Damaged || !is_short || at / 8 == 1, "{count} {at}");
            }
        }
        assert_eq!(Manifest::read(&[0; 4096]), Err(Wrong::Empty));
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut bytes = Manifest::default().blocks().to_vec();
        bytes[7] = b'2';
        let end = HEAD_BYTES;
        let sum = checksum(&[&bytes[..end]]).to_le_bytes();
        bytes[end..end + 4].copy_from_slice(&sum);
        assert_eq!(Manifest::read(&bytes), Err(Wrong::Version(b'2')));
    }
}
