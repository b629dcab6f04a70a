//! Arbitrary bytes as MongoDB messages. The code is shared with the test
//! `mongo_corpus_never_panics`. Initial corpus: `crates/wire/testdata/mongodb`.
#![no_main]

#[path = "../../crates/wire/tests/exercise/mongo.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|stream: &[u8]| exercise::exercise(stream));
