//! Randomly damaged conversations: no session panics, exceeds its buffer limit or leaves an
//! operation pending in storage, and a concurrent connection still gets its answers. The fuzz
//! target `session` does the same for longer. The corpus is made from the conversations of
//! `testdata/conversations`.

#[path = "hostile/exercise.rs"]
mod exercise;
#[path = "simulation/random.rs"]
mod random;

use std::{fs, path::Path};

use random::Random;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hostile");
    let entries = fs::read_dir(folder).expect("the corpus is committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    assert!(paths.len() >= 20, "the corpus is missing");
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

#[test]
fn undamaged() {
    corpus().iter().for_each(|conversation| exercise::exercise(conversation));
}

#[test]
fn damaged() {
    let corpus = corpus();
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let mut bytes = corpus[random.below(corpus.len())].clone();
        damage(&mut bytes, &corpus, &mut random);
        while !random.one_in(4) {
            damage(&mut bytes, &corpus, &mut random);
        }
        if std::panic::catch_unwind(|| exercise::exercise(&bytes)).is_err() {
            panic!("seed {seed} fails: {}", bytes.escape_ascii());
        }
    }
}

fn damage(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
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
            let happening = [exercise::CONTROL << 1, random.below(256) as u8];
            bytes.splice(at..at, happening);
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
