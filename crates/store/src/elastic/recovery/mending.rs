//! Identifies a record in which one byte is wrong.
//!
//! A checksum of 32 bits does more than detect damage: for a single wrong byte it determines which
//! byte it is and its right value. That yields the key of the damaged record and the record that it
//! kills. The data on disk stays damaged, and is not served.

use crate::elastic::record::{Address, Record, UNIT_BYTES};

/// Repairs the record at `address` in `segment` if one byte of it is wrong; returns false
/// otherwise. The next record begins at `next`.
pub(super) fn mend_byte(address: Address, segment: &mut [u8], next: usize) -> bool {
    let at = address.offset() as usize;
    let record = &mut segment[at..next];
    let change = match Record::wrong_by(address, record) {
        Some((bytes, difference)) => changed_byte(bytes, difference),
        None => None,
    };
    let ends = record.len();
    let is_end = |end: usize| end == ends;
    let Some((place, change)) = change.or_else(|| changed_length(address, record, is_end)) else {
        return false;
    };
    record[place] ^= change;
    let is_whole = Record::read(address, record).is_ok();
    if !is_whole {
        record[place] ^= change;
    }
    is_whole
}

/// End of the record at `address` in `segment`, with padding, according to its lengths, with one
/// byte of them changed if that makes the checksum correct. `None` if the end is beyond the
/// segment.
pub(super) fn stated_end(address: Address, segment: &mut [u8]) -> Option<usize> {
    let at = address.offset() as usize;
    // Zeroes up to the end were not written, or are padding.
    let written = segment.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let written = (written + UNIT_BYTES).min(segment.len());
    let record = segment.get_mut(at..written)?;
    if let Some((place, change)) = changed_length(address, record, |_| true) {
        record[place] ^= change;
        let end = Record::parse_any(record);
        record[place] ^= change;
        return end.map(|end| at + end.next_multiple_of(UNIT_BYTES));
    }
    Record::parse_any(&segment[at..]).map(|end| at + end.next_multiple_of(UNIT_BYTES))
}

/// The wrong byte in a record of that length, including the checksum, and its correction, if
/// changing one byte causes that `difference` in the checksum; `None` if several bytes could.
fn changed_byte(bytes: usize, difference: u32) -> Option<(usize, u8)> {
    let mut found = None;
    // False if there was another candidate.
    let mut candidate = |place: usize, change: u8| found.replace((place, change)).is_none();
    // In the stored checksum itself.
    for (place, change) in difference.to_le_bytes().into_iter().enumerate() {
        if difference == u32::from(change) << (8 * place) && !candidate(place, change) {
            return None;
        }
    }
    // The checksum processes each byte by an invertible step: going back from the end, the first
    // place at which the difference is that of a single byte.
    let mut left = difference;
    for place in (CHECKSUM_BYTES..bytes).rev() {
        let change = BY_HIGH_BYTE[(left >> 24) as usize];
        let rest = left ^ STEPS[change as usize];
        if rest == 0 && !candidate(place, change) {
            return None;
        }
        left = rest << 8 | u32::from(change);
    }
    found
}

/// The same for a byte of a length, for which the record seems to end elsewhere than at a place
/// that `is_end` accepts.
fn changed_length(
    address: Address,
    record: &mut [u8],
    is_end: impl Fn(usize) -> bool,
) -> Option<(usize, u8)> {
    if record.len() < LENGTHS.end {
        return None;
    }
    LENGTHS.flat_map(|place| (1..=u8::MAX).map(move |change| (place, change))).find(
        |&(place, change)| {
            record[place] ^= change;
            let ends = Record::parse(record).is_ok_and(|read| is_end(read.bytes()));
            let is_whole = ends && Record::read(address, record).is_ok();
            record[place] ^= change;
            is_whole
        },
    )
}

const CHECKSUM_BYTES: usize = 4;
/// Range, in a record, of the lengths of its key and value.
const LENGTHS: std::ops::Range<usize> = 6..12;

/// CRC-32C of one byte, with its bits in the order of the processor's instruction.
const STEPS: [u32; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        steps[byte] = sum;
        byte += 1;
    }
    steps
};

/// Returns the byte whose step has that highest byte: each byte has a different one.
const BY_HIGH_BYTE: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[(STEPS[byte] >> 24) as usize] = byte as u8;
        byte += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Blocks;
    use crate::elastic::record::{Body, Expiry, Kind};

    #[test]
    fn any_changed_byte_is_found_and_two_are_not_taken_for_one() {
        let value: Vec<u8> = (0..300u32).map(|at| (at * 7 + 1) as u8).collect();
        let record = Record {
            kind: Kind::Put,
            more: false,
            durable: 256,
            kills: Address::new(2, 8192),
            key: b"key:0001",
            body: Body { version: 5, expires_at: Expiry(6), value: &value },
        };
        let address = Address::new(3, 4096);
        let mut segment = Blocks::default();
        segment.fill_up(4096);
        record.write(address, &mut segment);
        let next = segment.len();
        let whole = segment.to_vec();
        for place in 4096..next {
            for change in [1, 0x80, 0xff, place as u8 | 2] {
                let mut damaged = whole.clone();
                damaged[place] ^= change;
                // What fills it up is no part of it.
                if Record::read(address, &damaged[4096..]).is_ok() {
                    continue;
                }
                assert!(mend_byte(address, &mut damaged, next), "{place} {change}");
                assert!(damaged == whole, "{place} {change}");
            }
        }
        for place in 4096..next - 40 {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x11;
            damaged[place + 13] ^= 0x42;
            let before = damaged.clone();
            assert!(!mend_byte(address, &mut damaged, next) && damaged == before, "{place}");
        }
    }
}
