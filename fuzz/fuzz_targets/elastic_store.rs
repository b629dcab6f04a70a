//! Opens a store on segments of arbitrary bytes, and on modified segments of a real store.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/store/tests/segments/exercise.rs"]
mod exercise;

static CORPUS: LazyLock<Vec<(u64, Vec<u8>)>> = LazyLock::new(exercise::corpus);

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(&[(1, bytes), (2, &bytes[bytes.len() / 2..])]);
    // Segment, offset, change.
    let mut changed = CORPUS.clone();
    for &[segment, high, low, change] in bytes.as_chunks::<4>().0 {
        let segment = usize::from(segment) % changed.len();
        let segment = &mut changed[segment].1;
        let place = usize::from(u16::from_be_bytes([high, low])) % segment.len();
        segment[place] ^= change;
    }
    let changed: Vec<(u64, &[u8])> =
        changed.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
    let count = exercise::exercise(&changed);
    assert!(count.is_none_or(|count| count <= 100), "more keys than were ever stored");
});
