//! Finding the premaster secret in an RSA block without showing whether there was one.
//!
//! An attacker that learns whether chosen cipher texts are padded correctly can decrypt other
//! cipher texts after enough tries (Bleichenbacher 1998). So every cipher text gives 48 bytes by
//! the same steps: those in the block, or others if anything about it was wrong (RFC 5246
//! §7.4.7.1). The secret's length is fixed, so every byte has one place and nothing is searched
//! for.
//!
//! The substitute must look like a secret to an observer such as a compromised edge: it begins with
//! the version as a secret does, and for the same cipher text it is always the same, at every key
//! server with the key ([`Rejection`]; draft-irtf-cfrg-rsa-guidance calls it implicit rejection).

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use wire::ski::PREMASTER_BYTES;
use zeroize::Zeroizing;

/// The version a TLS 1.2 client puts in front of its secret.
const VERSION: [u8; 2] = [3, 3];
/// Zero, block type, zero behind the filling, secret.
const OVERHEAD_BYTES: usize = 3 + PREMASTER_BYTES;

/// Prefix of the hash of a private key.
const REJECTION_CONTEXT: &[u8] = b"enroute premaster rejection 1";

/// The key that derives substitute secrets for invalid cipher texts. Wiped when dropped.
pub struct Rejection(Zeroizing<[u8; 32]>);

impl Rejection {
    /// Returns that of the private key in the PKCS #8 document `der`; it can be derived only from
    /// the key.
    pub fn of_key(der: &[u8]) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        let hashed = Zeroizing::new([REJECTION_CONTEXT, der].concat());
        seed.copy_from_slice(digest(&SHA256, &hashed).as_ref());
        Self(seed)
    }

    /// The version, then 46 bytes that are indistinguishable from random ones without the key.
    pub fn secret(&self, encrypted: &[u8]) -> Zeroizing<[u8; PREMASTER_BYTES]> {
        let key = hmac::Key::new(hmac::HMAC_SHA384, &self.0[..]);
        let mut secret = Zeroizing::new([0; PREMASTER_BYTES]);
        // SHA-384 gives as many bytes as a secret has.
        for (byte, tag) in secret.iter_mut().zip(hmac::sign(&key, encrypted).as_ref()) {
            *byte = *tag;
        }
        for (byte, version) in secret.iter_mut().zip(VERSION) {
            *byte = version;
        }
        secret
    }
}

/// The secret in `block`, the result of the bare RSA operation, or `instead`. `decrypted` is false
/// if that operation failed. Takes the same steps for every block of a length.
pub fn unpad(
    block: &[u8],
    decrypted: Choice,
    instead: &[u8; PREMASTER_BYTES],
) -> [u8; PREMASTER_BYTES] {
    // Lengths are public.
    let Some((filled, secret)) = block.split_last_chunk::<PREMASTER_BYTES>() else {
        return *instead;
    };
    let ([zero, kind, filling @ .., end], true) = (filled, block.len() >= OVERHEAD_BYTES + 8)
    else {
        return *instead;
    };
    let mut good = decrypted & zero.ct_eq(&0) & kind.ct_eq(&2) & end.ct_eq(&0);
    for byte in filling {
        good &= !byte.ct_eq(&0);
    }
    let [major, minor, ..] = secret;
    good &= major.ct_eq(&VERSION[0]) & minor.ct_eq(&VERSION[1]);
    let mut chosen = *instead;
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
    fn what_stands_in_looks_like_a_secret_and_is_the_same_each_time() {
        let rejection = Rejection::of_key(b"a key");
        let first = rejection.secret(b"a cipher text");
        assert_eq!(first[..2], VERSION);
        assert_eq!(Rejection::of_key(b"a key").secret(b"a cipher text"), first);
        for other in
            [rejection.secret(b"another"), Rejection::of_key(b"b").secret(b"a cipher text")]
        {
            let alike = other.iter().zip(first.iter()).skip(2).filter(|(a, b)| a == b).count();
            assert!(alike < 8, "{alike} bytes alike");
        }
    }

    #[test]
    fn every_fault_gives_the_bytes_that_stand_in() {
        let random = [5; 48];
        assert_eq!(unpad(&block(), Choice::from(0), &random), random, "not decrypted");
        // Every byte outside of the secret and the padding has one valid value; the padding has one
        // invalid value; of the secret, the version is checked.
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
