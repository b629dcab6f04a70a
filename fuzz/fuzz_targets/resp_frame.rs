//! Arbitrary bytes as requests and replies of Redis.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/resp/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
