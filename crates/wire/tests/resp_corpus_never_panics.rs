//! Randomly damaged captures never panic, and decode the same for every chunk size. The fuzz target
//! `resp_frame` does the same for longer.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

#[path = "resp/exercise.rs"]
mod exercise;

fn captures() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/redis");
    let entries = std::fs::read_dir(folder).expect("the captures are committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "requests" || end == "replies"));
    // The order of directory entries differs between machines, and a seed must reproduce.
    paths.sort();
    assert!(paths.len() >= 20, "captures are missing");
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[derive(Debug, Clone)]
enum Damage {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index),
    Cut(Index),
    Repeat(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<Index>;
    let syntax = proptest::sample::select(&b"*$+-:_#,(!=%~|>;.?\r\n0123456789-1"[..]);
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        (place(), syntax.clone()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        (place(), proptest::collection::vec(syntax, 1..6))
            .prop_map(|(at, b)| Damage::Insert(at, b)),
        place().prop_map(Damage::Remove),
        place().prop_map(Damage::Cut),
        (place(), place()).prop_map(|(from, to)| Damage::Repeat(from, to)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    match damage {
        Damage::Replace(at, byte) => bytes[at.index(len)] = *byte,
        Damage::Insert(at, piece) => {
            bytes.splice(at.index(len)..at.index(len), piece.iter().copied());
        }
        Damage::Remove(at) => {
            bytes.remove(at.index(len));
        }
        Damage::Cut(at) => bytes.truncate(at.index(len)),
        Damage::Repeat(from, to) => {
            let (from, to) = (from.index(len), to.index(len));
            bytes.extend_from_within(from.min(to)..from.max(to));
        }
    }
}

#[test]
fn undamaged() {
    for bytes in captures() {
        for chunk_bytes in [1, 2, 5, 64, 255] {
            exercise::exercise(&[&[chunk_bytes], &bytes[..]].concat());
        }
    }
}

#[test]
fn damaged() {
    let captures = captures();
    let cases = (any::<Index>(), any::<u8>(), any::<Index>());
    let cases = (cases, proptest::collection::vec(damage(), 1..8));
    // A failing case is printed in full, to be copied into a test; proptest writes no seed file.
    let config = ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() };
    proptest!(config, |(((which, chunk_bytes, start), damages) in cases)| {
        let capture = which.get(&captures);
        // Damage ends decoding, so the start of the input is random.
        let mut bytes = capture[start.index(capture.len())..].to_vec();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        bytes.insert(0, chunk_bytes);
        exercise::exercise(&bytes);
    });
}
