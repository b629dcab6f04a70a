//! Arbitrary bytes as all input of a client of the database.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/db/tests/commands/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes);
});
