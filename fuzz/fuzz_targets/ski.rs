//! Arbitrary bytes as requests and replies of the key server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ski::{request, response};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = request::decode(bytes) {
        let written = request::encode(&read);
        assert_eq!(request::decode(&written).as_ref(), Ok(&read), "a request changes on its way");
    }
    if let Ok(read) = response::decode(bytes) {
        let written = response::encode(read.as_deref().map_err(|refusal| *refusal));
        assert_eq!(response::decode(&written), Ok(read), "an answer changes on its way");
    }
});
