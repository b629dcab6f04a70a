//! A store opened on segments of bytes nobody wrote.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/store/tests/segments/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(&[(1, bytes), (2, &bytes[bytes.len() / 2..])]);
});
