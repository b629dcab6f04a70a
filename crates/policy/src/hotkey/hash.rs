//! The hashes, in multiplications and shifts only. `docs/formats/hotkey.md` is the contract.

/// Number of row hashes, for sketch and filter each.
pub const ROWS_MAX: usize = 8;

const WORD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const LAST_FACTOR: u64 = 0xbf58_476d_1ce4_e5b9;

/// Odd factors, one a row: the first eight outputs of SplitMix64 from 0, made odd.
pub(super) const SKETCH_FACTORS: [u64; ROWS_MAX] = [
    0xe220_a839_7b1d_cdaf,
    0x6e78_9e6a_a1b9_65f5,
    0x06c4_5d18_8009_454f,
    0xf88b_b8a8_724c_81ed,
    0x1b39_896a_51a8_749b,
    0x53cb_9f0c_747e_a2eb,
    0x2c82_9abe_1f45_32e1,
    0xc584_133a_c916_ab3d,
];

/// The next eight.
pub(super) const FILTER_FACTORS: [u64; ROWS_MAX] = [
    0x3ee5_7890_41c9_8ac3,
    0xf3b8_488c_368c_b0a7,
    0x657e_ecdd_3cb1_3d09,
    0xc2d3_26e0_055b_def7,
    0x8621_a03f_e0bb_db7b,
    0x8e1f_7555_983a_a92f,
    0xb54e_0f16_00cc_4d19,
    0x84bb_3f97_971d_80ab,
];

/// 64 bits from a key: its length and its words of eight little-endian bytes, the last padded with
/// zeroes, mixed one after another.
pub fn hash(key: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ key.len() as u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(WORD_FACTOR);
        hash ^= hash >> 32;
    }
    hash = hash.wrapping_mul(LAST_FACTOR);
    hash ^ (hash >> 32)
}

/// The place of `hash` in a row of `2^width_bits` (1 to 32): multiply-shift (Dietzfelbinger and
/// others, 1997).
pub(super) fn place(hash: u64, factor: u64, width_bits: u32) -> usize {
    (hash.wrapping_mul(factor) >> (64 - width_bits)) as usize
}
