//! Any requests to several memcached servers are answered as by one, whatever the order in which
//! the servers answer, and hostile servers harm only their session. The fuzz target `fanout` does
//! the same for longer; its seeds are the corpus.

#[path = "hostile/damage.rs"]
mod damage;
#[path = "fanout/exercise.rs"]
mod exercise;
#[path = "simulation/random.rs"]
mod random;

/// The seeds, each with honest servers and with hostile ones.
fn corpus() -> Vec<Vec<u8>> {
    let mut corpus = damage::corpus("../../fuzz/seeds/fanout");
    assert!(corpus.len() >= 10, "seeds are missing");
    for at in 0..corpus.len() {
        let mut other = corpus[at].clone();
        other[0] ^= exercise::HOSTILE;
        corpus.push(other);
    }
    corpus
}

#[test]
fn undamaged() {
    corpus().iter().for_each(|conversation| exercise::exercise(conversation));
}

#[test]
fn damaged() {
    damage::damaged(&corpus(), exercise::ACCEPT, exercise::exercise);
}
