//! Requests and replies of DynamoDB, damaged at random, never panic and read the same in any
//! chunks. The fuzz target `dynamodb` does the same for longer; its seeds are the corpus.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

#[path = "dynamodb/exercise.rs"]
mod exercise;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/dynamodb");
    let entries = std::fs::read_dir(folder).expect("the seeds are committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    // The order of a folder differs from machine to machine; a failing seed should not.
    paths.sort();
    assert!(paths.len() >= 8, "seeds are missing");
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn undamaged() {
    corpus().iter().for_each(|bytes| exercise::exercise(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn damaged(
        which in any::<Index>(),
        chunk in any::<u8>(),
        damages in proptest::collection::vec((any::<Index>(), 0..4_u8, any::<u8>()), 0..6),
    ) {
        let corpus = corpus();
        let mut bytes = which.get(&corpus).clone();
        for (at, how, byte) in damages {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, b" \r\n0129:,{}\"a"[usize::from(byte) % 13]),
                2 if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes[0] = chunk;
        exercise::exercise(&bytes);
    }
}
