//! A corpus of recorded or composed messages, and random damage to them.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// All files of a directory below this crate that `keeps` selects by name.
pub(crate) fn corpus(directory: &str, keeps: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = std::fs::read_dir(directory).expect("the corpus is committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&keeps));
    // The order of directory entries differs between machines, and a seed must reproduce.
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[derive(Debug, Clone)]
pub(crate) enum Damage {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index),
    Cut(Index),
    Repeat(Index, Index),
}

impl Damage {
    /// Any damage; inserted bytes are those of the protocol's syntax.
    pub(crate) fn any(syntax: &'static [u8]) -> impl Strategy<Value = Self> {
        let place = any::<Index>;
        let syntax = proptest::sample::select(syntax);
        prop_oneof![
            (place(), any::<u8>()).prop_map(|(at, byte)| Self::Replace(at, byte)),
            (place(), syntax.clone()).prop_map(|(at, byte)| Self::Replace(at, byte)),
            (place(), proptest::collection::vec(syntax, 1..6))
                .prop_map(|(at, piece)| Self::Insert(at, piece)),
            place().prop_map(Self::Remove),
            place().prop_map(Self::Cut),
            (place(), place()).prop_map(|(from, to)| Self::Repeat(from, to)),
        ]
    }

    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Self::Replace(at, byte) => bytes[at.index(len)] = *byte,
            Self::Insert(at, piece) => {
                bytes.splice(at.index(len)..at.index(len), piece.iter().copied());
            }
            Self::Remove(at) => {
                bytes.remove(at.index(len));
            }
            Self::Cut(at) => bytes.truncate(at.index(len)),
            Self::Repeat(from, to) => {
                let (from, to) = (from.index(len), to.index(len));
                bytes.extend_from_within(from.min(to)..from.max(to));
            }
        }
    }
}

/// Passes inputs with random damage to `exercise`, each after a byte that says where chunks end.
/// Damage ends decoding, so an input begins at a random place if `anywhere`.
pub(crate) fn damaged(
    corpus: &[Vec<u8>],
    syntax: &'static [u8],
    anywhere: bool,
    exercise: fn(&[u8]),
) {
    let cases = (any::<Index>(), any::<u8>(), any::<Index>());
    let cases = (cases, proptest::collection::vec(Damage::any(syntax), 0..8));
    // A failing case is printed in full, to be copied into a test; proptest writes no seed file.
    let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..Default::default() };
    proptest!(config, |(((which, chunk_bytes, start), damages) in cases)| {
        let input = which.get(corpus);
        let start = if anywhere { start.index(input.len()) } else { 0 };
        let mut bytes = input[start..].to_vec();
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes.insert(0, chunk_bytes);
        exercise(&bytes);
    });
}
