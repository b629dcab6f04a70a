//! The MongoDB codec against libFuzzer. The body is shared with the test
//! `mongo_corpus_never_panics`; seed it with `crates/wire/testdata/mongodb`.
#![no_main]

#[path = "../../crates/wire/tests/exercise/mongo.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|stream: &[u8]| exercise::exercise(stream));
