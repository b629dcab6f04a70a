//! CRC-32C of data in several pieces.
//!
//! A short record consists of a header, a key and a value, each at its own address, rarely a
//! multiple of eight. In every piece the library processes the bytes before the first and after the
//! last such multiple one by one: two thirds of the time for a key of 14 bytes and a value of 64.
//! The processor can read words from any address. This, `mapping.rs` and `elastic/lanes.rs` are the
//! files of the crate with `unsafe` in them.

use crc32c::crc32c_append;

/// Minimum length for which the library is faster: it processes three parts in parallel.
#[cfg(target_arch = "x86_64")]
const LONG_BYTES: usize = 768;

/// The checksum of the concatenated `parts`.
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { checksum_by_words(parts) };
    }
    parts.iter().fold(0, |sum, part| crc32c_append(sum, part))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn checksum_by_words(parts: &[&[u8]]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let mut sum = !0;
    for &part in parts {
        if part.len() >= LONG_BYTES {
            sum = !crc32c_append(!sum, part);
            continue;
        }
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            sum = _mm_crc32_u64(sum.into(), u64::from_le_bytes(*word)) as u32;
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            sum = _mm_crc32_u32(sum, u32::from_le_bytes(*half));
        }
        for byte in rest {
            sum = _mm_crc32_u8(sum, *byte);
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_up_to_what_the_crate_says_of_the_whole() {
        let bytes: Vec<u8> = (0..2_000u32).map(|at| ((at * at) >> 3) as u8).collect();
        for length in (0..40).chain(760..780).chain([1_999]) {
            for start in 0..9.min(bytes.len() - length) {
                let whole = &bytes[start..start + length];
                for cut in (0..=length).step_by(7) {
                    let (first, second) = whole.split_at(cut);
                    let sum = checksum(&[first, &[], second]);
                    assert_eq!(sum, crc32c::crc32c(whole), "{start} {cut} {length}");
                }
            }
        }
    }
}
