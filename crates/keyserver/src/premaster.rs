//! Finding the premaster secret in an RSA block without showing whether there was one.
//!
//! Whoever learns whether a cipher text of his choice was padded correctly can decrypt others' with
//! enough tries (Bleichenbacher 1998). So every cipher text gives 48 bytes by the same steps: those
//! in the block, or random ones if anything about it was wrong (RFC 5246 §7.4.7.1). The secret's
//! length is fixed, so every byte has one place and nothing is searched for.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use wire::ski::PREMASTER_BYTES;

/// The version a TLS 1.2 client puts in front of its secret.
const VERSION: [u8; 2] = [3, 3];
/// Zero, block type, zero behind the filling, secret.
const OVERHEAD_BYTES: usize = 3 + PREMASTER_BYTES;

/// The secret in `block`, the result of the bare RSA operation, or `random`. `decrypted` is false if
/// that operation failed. Takes the same steps for every block of a length.
pub fn unpad(
    block: &[u8],
    decrypted: Choice,
    random: &[u8; PREMASTER_BYTES],
) -> [u8; PREMASTER_BYTES] {
    // Lengths are public.
    let Some((filled, secret)) = block.split_last_chunk::<PREMASTER_BYTES>() else {
        return *random;
    };
    let ([zero, kind, filling @ .., end], true) = (filled, block.len() >= OVERHEAD_BYTES + 8)
    else {
        return *random;
    };
    let mut good = decrypted & zero.ct_eq(&0) & kind.ct_eq(&2) & end.ct_eq(&0);
    for byte in filling {
        good &= !byte.ct_eq(&0);
    }
    let [major, minor, ..] = secret;
    good &= major.ct_eq(&VERSION[0]) & minor.ct_eq(&VERSION[1]);
    let mut chosen = *random;
    for (byte, present) in chosen.iter_mut().zip(secret) {
        byte.conditional_assign(present, good);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<u8> {
        let mut block = vec![0x77; 256];
        block[0] = 0;
        block[1] = 2;
        block[207] = 0;
        block[208..].fill(9);
        block[208..210].copy_from_slice(&VERSION);
        block
    }

    #[test]
    fn a_good_block_gives_its_secret() {
        let block = block();
        assert_eq!(unpad(&block, Choice::from(1), &[5; 48])[..], block[208..]);
    }

    #[test]
    fn every_fault_gives_the_random_bytes() {
        let random = [5; 48];
        assert_eq!(unpad(&block(), Choice::from(0), &random), random, "not decrypted");
        // Every byte outside of the secret but the filling has one right value; the filling has one
        // wrong one; of the secret, the version.
        for at in 0..210 {
            let mut changed = block();
            changed[at] = if (2..207).contains(&at) { 0 } else { changed[at] ^ 1 };
            assert_eq!(unpad(&changed, Choice::from(1), &random), random, "byte {at}");
        }
        for length in [0, 1, 47, 48, 51, 58] {
            assert_eq!(unpad(&vec![0; length], Choice::from(1), &random), random);
        }
    }
}
