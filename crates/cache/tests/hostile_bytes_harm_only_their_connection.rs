//! Randomly damaged conversations: no session panics, exceeds its buffer limit or leaves an
//! operation pending in storage, and a concurrent connection still gets its answers. The fuzz
//! target `session` does the same for longer. The corpus is made from the conversations of
//! `testdata/conversations`.

#[path = "hostile/damage.rs"]
mod damage;
#[path = "hostile/exercise.rs"]
mod exercise;
#[path = "simulation/random.rs"]
mod random;

fn corpus() -> Vec<Vec<u8>> {
    let corpus = damage::corpus("testdata/hostile");
    assert!(corpus.len() >= 20, "the corpus is missing");
    corpus
}

#[test]
fn undamaged() {
    corpus().iter().for_each(|conversation| exercise::exercise(conversation));
}

#[test]
fn damaged() {
    damage::damaged(&corpus(), exercise::CONTROL << 1, exercise::exercise);
}
