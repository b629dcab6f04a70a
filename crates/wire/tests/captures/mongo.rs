//! The captures in `testdata/mongodb`.

use std::path::PathBuf;

use wire::mongo::frame::{Limits, decode};

/// All captures with their names, sorted.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// The bytes of each frame of a capture, which must end at the end of its last frame.
pub(crate) fn frames(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = stream;
    let mut found = Vec::new();
    while let Some((frame, length)) = decode(rest, &Limits::default()).unwrap() {
        found.push(frame.bytes().to_vec());
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    found
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/mongodb"))
}
