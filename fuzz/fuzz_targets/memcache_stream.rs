//! Arbitrary bytes as requests and replies of memcached.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/memcache/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
