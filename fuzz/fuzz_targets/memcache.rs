//! Arbitrary bytes as datagrams, items and commands of memcached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::memcache::{
    KEY_BYTES_MAX,
    command::{Written, written},
    frame::Frame,
    item,
};

fuzz_target!(|bytes: &[u8]| {
    let (Written::Keys(keys) | Written::Everything(keys)) = written(bytes);
    for key in keys {
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "{key:?} is no key");
        assert!(bytes.windows(key.len()).any(|there| there == key), "{key:?} is not there");
    }
    let Ok(frame) = Frame::decode(bytes) else { return };
    let again = Frame { ..frame }.bytes();
    assert_eq!(Frame::decode(&again).expect("our own").request, frame.request);
    if let Ok(Some(item)) = item::answer(frame.payload, 7) {
        assert!(item.meta_text().ends_with(b"\r\n") && item.value.len() <= bytes.len());
    }
});
