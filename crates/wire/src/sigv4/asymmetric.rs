//! Version 4A: signatures by a key pair that is derived from the secret, for a set of regions.

use std::str;

use aws_lc_rs::{
    agreement::{ECDH_P256, PrivateKey},
    hmac::{self, HMAC_SHA256},
    signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey},
};

use super::{Refusal, credentials::Credential};
use crate::http1::Head;

pub(super) const ALGORITHM: &str = "AWS4-ECDSA-P256-SHA256";
/// The regions that a request is for, which are signed: names, with `*` for any rest, separated by
/// commas.
const REGIONS: &str = "x-amz-region-set";
/// Longest signature in hexadecimal: two numbers of 33 bytes, in DER.
const SIGNATURE_DIGITS_MAX: usize = 144;
/// Two less than the order of P-256: the largest number that leads to a key, which is one more.
const LARGEST: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6,
    0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x4f,
];

/// The public key of the last signer.
#[derive(Default)]
pub(super) struct Key(Option<(String, UnparsedPublicKey<Vec<u8>>)>);

impl Key {
    /// Verifies the signature of `message` by an access key.
    pub(super) fn verify(
        &mut self,
        access_key: &str,
        credential: &Credential,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refusal> {
        if self.0.as_ref().is_none_or(|(of, _)| of != access_key) {
            let point = public(access_key, &credential.secret).ok_or(Refusal::Form)?;
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
            self.0 = Some((access_key.to_owned(), key));
        }
        let (_, key) = self.0.as_ref().ok_or(Refusal::Form)?;
        key.verify(message, signature).map_err(|_| Refusal::Mismatch)
    }
}

/// The public key of an access key, as a point that is not compressed.
pub(super) fn public(access_key: &str, secret: &str) -> Option<Vec<u8>> {
    let private = PrivateKey::from_private_key(&ECDH_P256, &private(access_key, secret)?).ok()?;
    Some(private.compute_public_key().ok()?.as_ref().to_vec())
}

/// The private key of an access key: NIST SP 800-108 in counter mode with HMAC-SHA256, repeated
/// with another context until the result is in range (FIPS 186-4 B.4.2).
fn private(access_key: &str, secret: &str) -> Option<[u8; 32]> {
    const BLOCK: [u8; 4] = 1_u32.to_be_bytes();
    const BITS: [u8; 4] = 256_u32.to_be_bytes();
    let key = hmac::Key::new(HMAC_SHA256, &[b"AWS4A", secret.as_bytes()].concat());
    (1..=254_u8).find_map(|attempt| {
        let context = [access_key.as_bytes(), &[attempt]].concat();
        let input = [&BLOCK[..], ALGORITHM.as_bytes(), &[0], &context, &BITS].concat();
        let mut number: [u8; 32] = hmac::sign(&key, &input).as_ref().try_into().ok()?;
        if number > LARGEST {
            return None;
        }
        for byte in number.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        Some(number)
    })
}

/// The set of regions that a request states.
pub(super) fn regions<'a>(head: &Head<'a>) -> Option<&'a str> {
    str::from_utf8(head.one(REGIONS)?).ok().filter(|regions| !regions.is_empty())
}

/// A signature in hexadecimal.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() > SIGNATURE_DIGITS_MAX || !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| pair.iter().try_fold(0, |byte, &next| Some(byte << 4 | digit(next)?)))
        .collect()
}
