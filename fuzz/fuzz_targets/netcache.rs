//! Arbitrary bytes as messages of NetCache.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::netcache::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(message.bytes(), bytes, "a message changes on its way");
        if let Ok(Some((key, value))) = message.long_key() {
            assert_eq!(key.len() + value.len() + 1, message.value.len());
        }
    }
});
