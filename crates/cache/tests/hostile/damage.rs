//! Conversations of a corpus, and random damage to them.

use std::{fs, path::Path};

use crate::random::Random;

/// All files of a directory, by its path from this crate.
pub(crate) fn corpus(directory: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(directory).expect("the corpus is committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

/// Passes damaged conversations to `exercise`. Damage may insert `event` and a byte.
pub(crate) fn damaged(corpus: &[Vec<u8>], event: u8, exercise: fn(&[u8])) {
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let mut bytes = corpus[random.below(corpus.len())].clone();
        damage(&mut bytes, corpus, event, &mut random);
        while !random.one_in(4) {
            damage(&mut bytes, corpus, event, &mut random);
        }
        if std::panic::catch_unwind(|| exercise(&bytes)).is_err() {
            panic!("seed {seed} fails: {}", bytes.escape_ascii());
        }
    }
}

fn damage(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], event: u8, random: &mut Random) {
    if bytes.len() < 2 {
        bytes.extend_from_slice(&[0, 0]);
    }
    let at = 1 + random.below(bytes.len() - 1);
    match random.below(7) {
        0 => bytes[at] = random.below(256) as u8,
        1 => bytes[at] ^= 1 << random.below(8),
        2 => {
            bytes.remove(at);
        }
        3 => bytes.truncate(at),
        4 => {
            bytes.splice(at..at, [event, random.below(256) as u8]);
        }
        5 => {
            let from = at.saturating_sub(random.below(60)).max(1);
            bytes.extend_from_within(from..at);
        }
        _ => {
            let other = &corpus[random.below(corpus.len())];
            bytes.extend_from_slice(&other[random.below(other.len())..]);
            bytes.truncate(20_000);
        }
    }
}
