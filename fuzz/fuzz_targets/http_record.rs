//! Arbitrary bytes as a stored HTTP record: it is refused, or unchanged when it is stored again.
//! Checks what clients receive from it at any time.
#![no_main]

use std::time::Duration;

use bytes::Bytes;
use content::{Ground, Receiver, Record};
use http::HeaderMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = Record::decode(&Bytes::copy_from_slice(bytes)) else { return };
    let again = Record::decode(&Bytes::from(record.encode()));
    assert_eq!(again.as_ref(), Ok(&record), "a record changes when it is stored again");
    let Record::Entry(entry) = record else { return };
    let anyone = Receiver::new(HeaderMap::new());
    for now in [0, 1_800_000_000, 253_402_300_800, u64::from(u32::MAX) << 10] {
        let now = Duration::from_secs(now);
        let _ = entry.useful_for(now);
        for ground in [Ground::Stored, Ground::OriginFailed, Ground::OwnRequest] {
            let _ = entry.release(&anyone, ground, now);
        }
        let _ = entry.refreshed(&anyone, &HeaderMap::new(), now, now);
    }
});
