//! Sessions whose clients and origins send arbitrary bytes. Initial corpus:
//! `crates/cache/testdata/hostile`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cache/tests/hostile/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
