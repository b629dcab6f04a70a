//! Header, footer and trailer of a segment; the superblock.
//!
//! ```text
//! 0          4096                     data end, rounded up          length - 4096
//! | header   | records ...            | footer                      | ... trailer |
//! ```
//!
//! A segment with a trailer is sealed. The footer repeats what recovery needs of every record, so
//! that a restart reads 24 bytes per record instead of the records. If records are short, the
//! footer is a parity block, and the records are read.

use super::parity::Parity;
use super::record::{Address, Class, Expiry, u32_at, u64_at};
use crate::blocks::Blocks;
use crate::checksum::checksum;
use crate::device::{Device, FileName};
use crate::elastic::Error;

/// Unit of log writes, and of bytes that a disk is assumed to write completely or not at all.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Limits of the length of a segment, a power of two: footers would fill a shorter one, and an
/// address could not reach the end of a longer one.
pub(super) const SEGMENT_BYTES_MIN: u64 = 64 << 10;
pub(super) const SEGMENT_BYTES_MAX: u64 = 256 << 20;
/// Bytes of one footer line.
pub(super) const LINE_BYTES: usize = 24;
/// Records shorter than this on average have no footer lines, which would take more than 3 % of
/// their length.
const LISTED_RECORD_BYTES: u64 = 32 * LINE_BYTES as u64;

const MAGIC: u64 = u64::from_le_bytes(*b"enrtlog1");
const SUPERBLOCK_MAGIC: [u8; 7] = *b"enrtsup";
/// The format, and the one before it, which had no manifest.
const FORMAT: u8 = b'3';
const FORMAT_FORMER: u8 = b'2';

/// The data between the records of a sealed segment and its trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Footer {
    /// A line for each record.
    Lines = 0,
    /// The exclusive or of all blocks before it, one block: the lines are derived from the records.
    Parity = 1,
}

impl Footer {
    /// Returns the form of footer for records of `record_bytes` bytes with `lines` lines.
    pub(super) fn of(record_bytes: u64, lines: usize) -> Self {
        if record_bytes < lines as u64 * LISTED_RECORD_BYTES { Self::Parity } else { Self::Lines }
    }

    /// Length of the footer for `lines` lines.
    pub(super) fn bytes(self, lines: usize) -> usize {
        match self {
            Self::Lines => lines * LINE_BYTES,
            Self::Parity => BLOCK_BYTES,
        }
    }

    fn read(word: u64) -> Option<Self> {
        [Self::Lines, Self::Parity].into_iter().find(|footer| *footer as u64 == word)
    }
}

/// A footer's description of one record, or of one record it kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// Hash of the record's key, or of the key of the killed record.
    pub(super) hash: u64,
    /// Offset of the record in its segment.
    pub(super) offset: u64,
    /// Length of the record; `None` for a line that only kills.
    pub(super) class: Option<Class>,
    /// Address of the record that this one kills.
    pub(super) kills: Address,
    /// Expiry in seconds, rounded up; `u32::MAX` is never.
    pub(super) expires_s: u32,
}

impl Line {
    pub(super) fn expires_s(at: Expiry) -> u32 {
        if at == Expiry::NEVER {
            return u32::MAX;
        }
        u32::try_from(at.0.div_ceil(1000)).unwrap_or(u32::MAX)
    }

    fn write(self, out: &mut Blocks) {
        out.extend_from_slice(&((self.hash << 24) | (self.offset / 16)).to_le_bytes());
        out.extend_from_slice(&self.kills.0.to_le_bytes());
        out.extend_from_slice(&self.expires_s.to_le_bytes());
        let class = self.class.map_or(0, |class| 1 << 16 | u32::from(class.0));
        out.extend_from_slice(&class.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        let place = u64_at(bytes, 0);
        let class = u32_at(bytes, 20);
        Self {
            hash: place >> 24,
            offset: (place & 0xff_ffff) * 16,
            class: (class != 0).then_some(Class(class as u16)),
            kills: Address(u64_at(bytes, 8)),
            expires_s: u32_at(bytes, 16),
        }
    }
}

/// Writes the footer, padded to whole blocks; returns its checksum.
pub(super) fn write_footer(
    footer: Footer,
    lines: &[Line],
    parity: &Parity,
    out: &mut Blocks,
) -> u32 {
    let start = out.len();
    match footer {
        Footer::Lines => lines.iter().for_each(|line| line.write(out)),
        Footer::Parity => out.extend_from_slice(parity.bytes()),
    }
    let checksum = crc32c::crc32c(&out[start..]);
    out.fill_up(out.len().next_multiple_of(BLOCK_BYTES));
    checksum
}

/// The bytes of the footer, if they match the trailer; `None` if the footer is damaged.
pub(super) fn whole_footer<'a>(bytes: &'a [u8], trailer: &Trailer) -> Option<&'a [u8]> {
    let bytes = bytes.get(..trailer.footer_bytes())?;
    (crc32c::crc32c(bytes) == trailer.footer_checksum).then_some(bytes)
}

/// The lines of the footer; `None` if it is damaged.
pub(super) fn read_footer(bytes: &[u8], trailer: &Trailer) -> Option<Vec<Line>> {
    let bytes = whole_footer(bytes, trailer)?;
    Some(bytes.chunks_exact(LINE_BYTES).map(Line::read).collect())
}

/// The first block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    /// Segments with lower numbers are ignored: the store was cleared.
    pub(super) floor: u64,
}

impl Header {
    pub(super) fn write(self, out: &mut Blocks) {
        write_block(&[MAGIC, self.number, self.floor], out);
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [magic, number, floor] = read_block(bytes)?;
        (magic == MAGIC).then_some(Self { number, floor })
    }
}

/// The last block of a sealed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) number: u64,
    pub(super) floor: u64,
    /// End of the records.
    pub(super) data_end: u64,
    pub(super) footer: Footer,
    /// Number of lines, in the footer or to be derived.
    pub(super) lines: u64,
    pub(super) footer_checksum: u32,
    /// The highest version of any record here.
    pub(super) version_max: u64,
}

impl Trailer {
    pub(super) fn footer_offset(&self) -> u64 {
        self.data_end.next_multiple_of(BLOCK_BYTES as u64)
    }

    /// True if all its offsets are within a segment of that length.
    pub(super) fn fits(&self, segment_bytes: u64) -> bool {
        let limit = segment_bytes - BLOCK_BYTES as u64;
        self.data_end >= BLOCK_BYTES as u64
            && self.data_end <= limit
            && self.lines <= segment_bytes
            && self.footer_offset() + self.footer_bytes() as u64 <= limit
    }

    pub(super) fn footer_bytes(&self) -> usize {
        self.footer.bytes(self.lines as usize)
    }

    pub(super) fn write(self, out: &mut Blocks) {
        let Self { number, floor, data_end, footer, lines, footer_checksum, version_max } = self;
        let (footer, checksum) = (footer as u64, u64::from(footer_checksum));
        write_block(&[MAGIC, number, floor, data_end, footer, lines, checksum, version_max], out);
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [magic, number, floor, data_end, footer, lines, checksum, version_max] =
            read_block(bytes)?;
        let footer = Footer::read(footer).filter(|_| magic == MAGIC)?;
        Some(Self {
            number,
            floor,
            data_end,
            footer,
            lines,
            footer_checksum: checksum as u32,
            version_max,
        })
    }
}

/// Properties that never change during the life of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) segment_bytes: u64,
    pub(super) hash_key: [u64; 2],
}

impl Superblock {
    pub(super) fn write(self, out: &mut Blocks) {
        let Self { segment_bytes, hash_key } = self;
        let [a, b, c, d, e, f, g] = SUPERBLOCK_MAGIC;
        let magic = u64::from_le_bytes([a, b, c, d, e, f, g, FORMAT]);
        write_block(&[magic, segment_bytes, hash_key[0], hash_key[1]], out);
    }

    /// Reads the superblock; returns also whether it has the former format.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, bool), Error> {
        let file = FileName::Superblock;
        let foreign = |found: &str| Error::Foreign {
            file,
            found: found.to_owned(),
            expected:
                "an elastic store of format 2 or 3; start the version of enroute that wrote it"
                    .to_owned(),
        };
        let Some([magic, segment_bytes, first, second]) = read_block(bytes) else {
            return Err(Error::Damaged { file, offset: 0, found: "a wrong checksum".to_owned() });
        };
        let magic = magic.to_le_bytes();
        let format = magic[7];
        if magic[..7] != SUPERBLOCK_MAGIC {
            return Err(foreign("something else"));
        }
        if ![FORMAT, FORMAT_FORMER].contains(&format) {
            return Err(foreign(&format!("format {}", char::from(format))));
        }
        let allowed = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        if !segment_bytes.is_power_of_two() || !allowed.contains(&segment_bytes) {
            return Err(foreign("an impossible length of segments"));
        }
        Ok((Self { segment_bytes, hash_key: [first, second] }, format == FORMAT_FORMER))
    }

    /// Identifies the store without revealing the key.
    pub(super) fn identity(&self) -> u32 {
        let [first, second] = self.hash_key.map(u64::to_le_bytes);
        checksum(&[&first, &second])
    }

    /// Writes it in place and syncs it.
    pub(super) fn store(self, device: &(impl Device + ?Sized)) -> Result<(), Error> {
        let (file, mut bytes) = (FileName::Superblock, Blocks::default());
        self.write(&mut bytes);
        let stored = device.write(file, 0, &bytes).and_then(|()| device.sync(file));
        stored.map_err(Error::write_failed(file))
    }
}

/// Writes words and their checksum, padded to one block.
fn write_block(words: &[u64], out: &mut Blocks) {
    let start = out.len();
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.fill_up(start + BLOCK_BYTES);
}

fn read_block<const WORDS: usize>(bytes: &[u8]) -> Option<[u64; WORDS]> {
    let bytes = bytes.get(..WORDS * 8 + 4)?;
    let words = std::array::from_fn(|word| u64_at(bytes, word * 8));
    (crc32c::crc32c(&bytes[..WORDS * 8]) == u32_at(bytes, WORDS * 8)).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_format_is_known_and_others_are_refused_by_name() {
        let read = |magic: &[u8; 8]| {
            let mut bytes = Blocks::default();
            write_block(&[u64::from_le_bytes(*magic), SEGMENT_BYTES_MIN, 1, 2], &mut bytes);
            Superblock::read(&bytes)
        };
        for other in ['1', '4'] {
            let magic = [b"enrtsup".as_slice(), &[other as u8]].concat();
            let error = read(magic[..].try_into().expect("eight bytes")).expect_err("another");
            let error = error.to_string();
            let expected = format!("format {other}; expected an elastic store of format 2 or 3");
            assert!(error.contains(&expected), "{error}");
        }
        let superblock = Superblock { segment_bytes: SEGMENT_BYTES_MIN, hash_key: [1, 2] };
        let mut bytes = Blocks::default();
        superblock.write(&mut bytes);
        assert_eq!(Superblock::read(&bytes).expect("this format"), (superblock, false));
        assert_eq!(read(b"enrtsup2").expect("the former"), (superblock, true));
    }
}
