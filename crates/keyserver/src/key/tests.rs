use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use wire::ski::{Hash, PREMASTER_BYTES, TranscriptHash};

use super::*;

fn key(kind: KeyKind) -> SigningKey {
    SigningKey::from_pkcs8(&generate(kind).unwrap(), vec![]).unwrap()
}

/// A point of P-256: the public half of a key.
fn point() -> Vec<u8> {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap().public_key().as_ref().to_vec()
}

fn exchange(signature: Signature, point: &[u8]) -> Operation {
    let params = [&[3, 0, 23, 65], point].concat();
    Operation::ServerKeyExchange {
        client_random: [1; 32],
        server_random: [2; 32],
        params: Params::decode(&params, 0).unwrap(),
        signature,
    }
}

fn verify(scheme: Scheme) -> Operation {
    Operation::CertificateVerify { transcript_hash: TranscriptHash::Sha256([9; 32]), scheme }
}

fn check(
    key: &SigningKey,
    algorithm: &'static dyn VerificationAlgorithm,
    message: &[u8],
    signature: &[u8],
) {
    let public = match &key.pair {
        Pair::Rsa { pair, .. } => pair.public_key().as_ref().to_vec(),
        Pair::Ecdsa(pair, _) => pair.public_key().as_ref().to_vec(),
        Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
    };
    UnparsedPublicKey::new(algorithm, public).verify(message, signature).unwrap();
}

#[test]
fn an_exchange_is_signed_as_tls_1_2_has_it() {
    let (key_p256, point) = (key(KeyKind::EcdsaP256), point());
    let key_rsa = key(KeyKind::Rsa);
    let operation = exchange(Signature::Hash(Hash::Sha256), &point);
    let signature = key_p256.perform(&operation).unwrap();
    let message = [&[1; 32][..], &[2; 32], &[3, 0, 23, 65], &point].concat();
    check(&key_p256, &ECDSA_P256_SHA256_ASN1, &message, &signature);

    let operation = exchange(Signature::Hash(Hash::Sha384), &point);
    let signature = key_rsa.perform(&operation).unwrap();
    check(&key_rsa, &RSA_PKCS1_2048_8192_SHA384, &message, &signature);
}

#[test]
fn a_certificate_verify_is_the_server_s_and_built_here() {
    let message = [&[0x20; 64][..], b"TLS 1.3, server CertificateVerify\0", &[9; 32]].concat();
    let all: [(SigningKey, Scheme, &'static dyn VerificationAlgorithm); 4] = [
        (key(KeyKind::EcdsaP256), Scheme::EcdsaP256Sha256, &ECDSA_P256_SHA256_ASN1),
        (key(KeyKind::EcdsaP384), Scheme::EcdsaP384Sha384, &ECDSA_P384_SHA384_ASN1),
        (key(KeyKind::Ed25519), Scheme::Ed25519, &ED25519),
        (key(KeyKind::Rsa), Scheme::RsaPssSha256, &RSA_PSS_2048_8192_SHA256),
    ];
    for (key, scheme, algorithm) in &all {
        let signature = key.perform(&verify(*scheme)).unwrap();
        check(key, *algorithm, &message, &signature);
        for (_, other, _) in &all {
            if other.key_kind() != key.kind() {
                let refused = key.perform(&verify(*other));
                assert_eq!(refused.unwrap_err(), Refusal::Malformed, "{other:?} of {key:?}");
            }
        }
    }
}

#[test]
fn a_point_off_the_curve_is_refused() {
    let key = key(KeyKind::EcdsaP256);
    let mut point = point();
    *point.last_mut().unwrap() ^= 1;
    let operation = exchange(Signature::Hash(Hash::Sha256), &point);
    assert_eq!(key.perform(&operation).unwrap_err(), Refusal::Malformed);
}

/// Encrypts a whole block with the public key, as an attacker can.
fn encrypt_block(key: &SigningKey, block: &[u8]) -> Vec<u8> {
    crate::raw_rsa::encrypt_for_tests(&key.public_key().unwrap(), block)
}

fn block(secret: &[u8]) -> Vec<u8> {
    let mut block = vec![0x5a; 256];
    block[..2].copy_from_slice(&[0, 2]);
    block[255 - secret.len()] = 0;
    block[256 - secret.len()..].copy_from_slice(secret);
    block
}

/// Ciphertexts as in Bleichenbacher's attack: the fault of each block, and the block.
pub(crate) fn faults() -> Vec<(&'static str, Vec<u8>)> {
    let secret = [&[3, 3][..], &[8; 46]].concat();
    let good = block(&secret);
    let with = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        changed
    };
    vec![
        ("first byte", with(0, 1)),
        ("block type 1", with(1, 1)),
        ("block type 0", with(1, 0)),
        ("a zero early in the filling", with(3, 0)),
        ("a zero late in the filling", with(200, 0)),
        ("no zero before the secret", with(207, 7)),
        ("a secret of 47 bytes", block(&secret[..47])),
        ("a secret of 49 bytes", block(&[&secret[..], &[8]].concat())),
        ("no secret", block(&[])),
        ("version 1.1", with(209, 2)),
        ("version 4", with(208, 4)),
    ]
}

#[test]
fn an_rsa_answer_does_not_tell_good_padding_from_bad() {
    let key = key(KeyKind::Rsa);
    let secret = [&[3, 3][..], &[8; 46]].concat();
    let ask = |encrypted: Vec<u8>| key.perform(&Operation::Premaster { encrypted }).unwrap();
    assert_eq!(ask(encrypt_block(&key, &block(&secret)))[..], secret);
    let mut answers = vec![secret.clone()];
    for (fault, block) in faults() {
        let encrypted = encrypt_block(&key, &block);
        // The answer looks like a valid one: it has the same length and version, is the same each
        // time, and differs from any other.
        let answer = ask(encrypted.clone());
        assert_eq!((answer.len(), &answer[..2]), (PREMASTER_BYTES, &[3, 3][..]), "{fault}");
        assert_eq!(ask(encrypted), answer, "{fault}: asked again");
        answers.push(answer.to_vec());
    }
    for (at, one) in answers.iter().enumerate() {
        for other in &answers[..at] {
            let alike = one.iter().zip(other).skip(2).filter(|(one, other)| one == other).count();
            assert!(alike < 8, "{alike} bytes of two answers are alike");
        }
    }
    // An input that is not below the modulus: the library fails, and the answer is still of this
    // form.
    assert_eq!(ask(vec![0xff; 256]).len(), PREMASTER_BYTES);
    // Lengths are public.
    let short = Operation::Premaster { encrypted: vec![1; 257] };
    assert_eq!(key.perform(&short).unwrap_err(), Refusal::Malformed);
}

/// PKCS #1 padding of the library, as real clients use it.
#[test]
fn a_client_s_premaster_is_found() {
    let key = key(KeyKind::Rsa);
    let secret = [&[3, 3][..], &[8; 46]].concat();
    let encrypted = encrypt_premaster(&key.public_key().unwrap(), &secret).unwrap();
    let answer = key.perform(&Operation::Premaster { encrypted }).unwrap();
    assert_eq!(answer[..], secret);
}

#[test]
fn other_keys_decrypt_nothing() {
    let operation = Operation::Premaster { encrypted: vec![1; 256] };
    assert_eq!(key(KeyKind::EcdsaP256).perform(&operation).unwrap_err(), Refusal::Malformed);
}

#[test]
fn what_is_no_key_is_refused_without_being_shown() {
    for bytes in [&b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"[..], b"secret"]
    {
        let error =
            pkcs8_of(bytes).and_then(|der| SigningKey::from_pkcs8(&der, vec![])).unwrap_err();
        let text = error.to_string();
        assert!(!text.contains("AAAA") && !text.contains("secret"), "{text}");
    }
    let debug = format!("{:?}", key(KeyKind::EcdsaP256));
    assert!(debug.len() < 100, "{debug}");
}
