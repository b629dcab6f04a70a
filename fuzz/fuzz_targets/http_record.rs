//! Any bytes as a stored HTTP record: refused, or the same after it is stored again.
#![no_main]

use bytes::Bytes;
use content::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = Record::decode(&Bytes::copy_from_slice(bytes)) {
        let again = Record::decode(&Bytes::from(record.encode()));
        assert_eq!(again, Ok(record), "a record changes when it is stored again");
    }
});
