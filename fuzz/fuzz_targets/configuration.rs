//! Arbitrary text as a configuration file: accepted, or refused with the position of the error.
#![no_main]

use enroute::config::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Document::parse(text, "fuzz.toml") {
        Ok(document) => drop(document.storage()),
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("fuzz.toml:"), "an error without its place: {said}");
        }
    }
});
