//! Arbitrary requests to several memcached servers as one origin, and arbitrary replies of them.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cache/tests/fanout/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
