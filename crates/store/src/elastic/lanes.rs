//! Compares sixteen tags of a [page](super::page) at once.
//!
//! The compiler's code takes four times as many instructions, and a lookup in a nearly full page
//! examines several groups.

/// Tags of a group.
pub(super) const LANES: usize = 16;

/// A bit for each tag that is `wanted`.
#[inline]
pub(super) fn equal(tags: &[u32; LANES], wanted: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every such processor has the instructions.
    return unsafe { sse2::equal(tags, wanted) };
    #[cfg(not(target_arch = "x86_64"))]
    bits_where(tags, |tag| tag == wanted)
}

/// Returns a bit for each tag whose last sixteen bits are among the `count` from `first` on.
#[inline]
pub(super) fn ends_among(tags: &[u32; LANES], first: u16, count: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every such processor has the instructions.
    return unsafe { sse2::ends_among(tags, first, count) };
    #[cfg(not(target_arch = "x86_64"))]
    bits_where(tags, |tag| (tag as u16).wrapping_sub(first) < count)
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi16, _mm_set1_epi32, _mm_setzero_si128,
        _mm_slli_epi32, _mm_srai_epi32, _mm_sub_epi16, _mm_subs_epu16,
    };

    use super::LANES;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn equal(tags: &[u32; LANES], wanted: u32) -> u32 {
        let wanted = _mm_set1_epi32(wanted as i32);
        let [a, b, c, d] = vectors(tags);
        bits(
            _mm_packs_epi32(_mm_cmpeq_epi32(a, wanted), _mm_cmpeq_epi32(b, wanted)),
            _mm_packs_epi32(_mm_cmpeq_epi32(c, wanted), _mm_cmpeq_epi32(d, wanted)),
        )
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn ends_among(tags: &[u32; LANES], first: u16, count: u16) -> u32 {
        let [a, b, c, d] = vectors(tags);
        bits(are_among(ends(a, b), first, count), are_among(ends(c, d), first, count))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn vectors(tags: &[u32; LANES]) -> [__m128i; 4] {
        let tags: *const __m128i = tags.as_ptr().cast();
        // SAFETY: sixteen tags are four vectors, which may be read from any address.
        unsafe { [0, 1, 2, 3].map(|at| _mm_loadu_si128(tags.add(at))) }
    }

    /// The last sixteen bits of eight tags.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn ends(low: __m128i, high: __m128i) -> __m128i {
        // Sign-extended, so that packing does not change them.
        let (low, high) = (_mm_slli_epi32::<16>(low), _mm_slli_epi32::<16>(high));
        _mm_packs_epi32(_mm_srai_epi32::<16>(low), _mm_srai_epi32::<16>(high))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn are_among(ends: __m128i, first: u16, count: u16) -> __m128i {
        let behind_first = _mm_sub_epi16(ends, _mm_set1_epi16(first as i16));
        let last = _mm_set1_epi16(count.wrapping_sub(1) as i16);
        _mm_cmpeq_epi16(_mm_subs_epu16(behind_first, last), _mm_setzero_si128())
    }

    /// A bit for each of sixteen numbers that are all ones or all zeroes.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn bits(low: __m128i, high: __m128i) -> u32 {
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn bits_where(tags: &[u32; LANES], is_so: impl Fn(u32) -> bool) -> u32 {
    tags.iter().zip(0..).fold(0, |bits, (&tag, lane)| bits | u32::from(is_so(tag)) << lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_say_what_each_tag_alone_says() {
        let mut draw = 1u32;
        for round in 0..20_000u32 {
            let tags: [u32; LANES] = std::array::from_fn(|_| {
                draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Near the limits of the ranges, negative values included.
                [draw, draw >> 16, draw & 0xFFFF_0003, (draw & 7).wrapping_sub(4)]
                    [round as usize % 4]
            });
            let wanted = tags[(round / 4) as usize % LANES];
            assert_eq!(equal(&tags, wanted), bits_where(&tags, |tag| tag == wanted));
            let (first, count) = (wanted as u16, (draw >> 20) as u16 + 1);
            for first in [first, first.wrapping_add(1), first.wrapping_sub(count), 0x7FFE, 0xFFFE] {
                let is_among = |tag: u32| (tag as u16).wrapping_sub(first) < count;
                assert_eq!(ends_among(&tags, first, count), bits_where(&tags, is_among), "{round}");
            }
        }
    }
}
