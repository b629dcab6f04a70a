//! DynamoDB requests and replies from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/dynamodb/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
