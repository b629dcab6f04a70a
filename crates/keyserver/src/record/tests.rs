use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};

use super::*;
use aws_lc_rs::{rand::SecureRandom, rand::SystemRandom};

const OLD: &str = "0000000000000000000000000000000000000000000000000000000000000001";
const NEW: &str = "0000000000000000000000000000000000000000000000000000000000000002";

fn random(bytes: &mut [u8]) {
    SystemRandom::new().fill(bytes).unwrap();
}

fn der() -> Vec<u8> {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
        .unwrap()
        .to_pkcs8v1()
        .unwrap()
        .as_ref()
        .to_vec()
}

fn sealed(keyring: &Keyring) -> (KeyId, Vec<u8>, Vec<u8>) {
    let der = der();
    let names = ["www.example.org".to_owned(), "*.example.com".to_owned()];
    let (id, record) = seal(&der, &names, keyring, &mut random).unwrap();
    (id, record, der)
}

#[test]
fn a_record_opens_and_shows_nothing() {
    let keyring = Keyring::parse(OLD).unwrap();
    let (id, record, der) = sealed(&keyring);
    let key = open(id, &record, &keyring).unwrap();
    assert_eq!(key.id(), id);
    assert!(key.is_for("www.example.org") && key.is_for("a.example.com") && !key.is_for("b.org"));
    for window in der.windows(8) {
        assert!(!record.windows(8).any(|found| found == window), "key bytes are visible");
    }
    assert_eq!(id_of(name(id).as_bytes()), Some(id));
}

#[test]
fn every_changed_bit_is_found() {
    let keyring = Keyring::parse(OLD).unwrap();
    let (id, record, _) = sealed(&keyring);
    for at in 0..record.len() {
        let mut changed = record.clone();
        changed[at] ^= 1;
        assert!(open(id, &changed, &keyring).is_err(), "byte {at}");
    }
    for length in 0..record.len() {
        assert!(open(id, &record[..length], &keyring).is_err(), "cut to {length} bytes");
    }
}

#[test]
fn a_record_opens_under_no_other_name_and_no_other_kek() {
    let keyring = Keyring::parse(OLD).unwrap();
    let (id, record, _) = sealed(&keyring);
    let (other, ..) = sealed(&keyring);
    // The owner is authenticated by the seal, and selects the key.
    let error = open(other, &record, &keyring).unwrap_err().to_string();
    assert!(error.contains("was changed since it was sealed"), "{error}");
    assert!(open(id, &record, &Keyring::parse(NEW).unwrap()).is_err());
}

/// Sealed for `id` by mistake: a key is never used under another name.
#[test]
fn a_record_with_another_key_in_it_is_not_opened() {
    let keyring = Keyring::parse(OLD).unwrap();
    let (id, ..) = sealed(&keyring);
    let (data_key, nonce) = ([7; DATA_KEY_BYTES], [1; NONCE_LEN]);
    let mut content = encode_names(id, &[]).unwrap();
    content.extend(der());
    let cipher = keyring::cipher(&data_key).unwrap();
    keyring::seal(&cipher, nonce, &about(SEAL_CONTEXT, id), &mut content).unwrap();
    let mut record = wrap(&data_key, id, &keyring, &mut random).unwrap();
    record.extend([&nonce[..], &content].concat());
    let error = open(id, &record, &keyring).unwrap_err().to_string();
    assert!(error.contains("holds another key"), "{error}");
}

#[test]
fn rotation_moves_a_record_to_the_first_kek() {
    let old = Keyring::parse(OLD).unwrap();
    let both = Keyring::parse(&format!("# new first\n{NEW}\n{OLD}\n")).unwrap();
    let new = Keyring::parse(NEW).unwrap();
    let (id, record, _) = sealed(&old);
    assert_eq!(open(id, &record, &both).unwrap().id(), id);
    let rotated = rewrap(id, &record, &both, &mut random).unwrap().unwrap();
    assert_eq!(open(id, &rotated, &new).unwrap().id(), id);
    assert!(open(id, &rotated, &old).is_err());
    assert_eq!(rewrap(id, &rotated, &both, &mut random).unwrap(), None);
}

#[test]
fn mistakes_in_a_keyring_are_named_without_showing_it() {
    assert_eq!(Keyring::parse("\n# none\n").unwrap_err(), Error::NoKek);
    let short = Keyring::parse(&OLD[1..]).unwrap_err().to_string();
    assert!(short.contains("63 bytes"), "{short}");
    let error = Keyring::parse(&OLD.replace('1', "x")).unwrap_err().to_string();
    assert!(!error.contains("000000"), "{error}");
}
