//! Arbitrary bytes as the files of the key server: sealed record, key-encryption keys, audit log.
#![no_main]

use keyserver::{Keyring, audit::Chain, record};
use libfuzzer_sys::fuzz_target;
use wire::ski::KeyId;

fuzz_target!(|bytes: &[u8]| {
    let id = KeyId([7; 32]);
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(keyring) = Keyring::parse(text)
    {
        assert!(record::open(id, bytes, &keyring).is_err(), "a record that was never sealed opens");
    }
    // Key-encryption keys before the first NUL, a record after it.
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let keyring = parts.next().and_then(|text| str::from_utf8(text).ok());
    if let (Some(Ok(keyring)), Some(sealed)) = (keyring.map(Keyring::parse), parts.next()) {
        assert!(record::open(id, sealed, &keyring).is_err(), "a record never sealed opens");
    }
    let mut chain = Chain::default();
    let mut log = bytes;
    let _ = chain.verify(&mut log).expect("memory can be read");
    let _ = Chain::behind(bytes);
});
