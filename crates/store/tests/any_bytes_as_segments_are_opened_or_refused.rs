//! Segments of a real store, randomly damaged, truncated, swapped and mixed. The fuzz target
//! `elastic_store` does the same for longer.

#[expect(unreachable_pub, reason = "shared with the fuzz target")]
#[path = "segments/exercise.rs"]
mod exercise;

use exercise::{SEGMENT_BYTES, corpus, exercise};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }
}

#[test]
fn any_bytes() {
    let corpus = corpus();
    assert!(corpus.len() > 3, "{} segments", corpus.len());
    for footer in 0..=1 {
        let has_footer = |bytes: &[u8]| {
            let trailer = &bytes[bytes.len() - 4096..];
            trailer.starts_with(b"enrtlog1") && trailer[32] == footer
        };
        assert!(corpus.iter().any(|(_, bytes)| has_footer(bytes)), "none has footer {footer}");
    }
    let whole: Vec<(u64, &[u8])> =
        corpus.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
    assert_eq!(exercise(&whole), Some(80), "undamaged, all entries are there");
    let seed = std::env::var("SEED").map_or(7, |seed| seed.parse().expect("a number"));
    let mut random = Random(SplitMix64::seed_from_u64(seed));
    let mut opened = 0;
    for _ in 0..400 {
        let mut damaged = corpus.clone();
        for _ in 0..=random.below(8) {
            let at = random.below(damaged.len());
            let other = random.below(damaged.len());
            let segment = &mut damaged[at].1;
            let place = random.below(segment.len().max(1));
            match random.below(6) {
                0 => segment.truncate(place),
                1 => segment.resize(SEGMENT_BYTES, 0),
                2 => segment.iter_mut().skip(place).take(600).for_each(|byte| *byte = 0),
                3 => damaged[at].1 = damaged[other].1.clone(),
                _ if segment.is_empty() => {}
                _ => segment[place] ^= 1 << random.below(8),
            }
        }
        let damaged: Vec<(u64, &[u8])> =
            damaged.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
        if let Some(count) = exercise(&damaged) {
            assert!(count <= 100, "{count} keys, but no more than 100 were ever stored");
            opened += 1;
        }
    }
    assert!(opened > 0, "no damaged store was opened");
}
