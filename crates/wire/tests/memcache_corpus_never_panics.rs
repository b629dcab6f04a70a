//! Randomly damaged memcached requests and replies never panic, and decode the same for every
//! chunk size. The fuzz target `memcache_stream` does so for longer; its seeds are the corpus.

mod damage;
#[path = "memcache/exercise.rs"]
mod exercise;

/// The seeds, each without the byte that says where chunks end.
fn seeds() -> Vec<Vec<u8>> {
    let seeds = damage::corpus("../../fuzz/seeds/memcache_stream", |_| true);
    assert!(seeds.len() >= 20, "seeds are missing");
    seeds.iter().map(|seed| seed[1..].to_vec()).collect()
}

#[test]
fn undamaged() {
    for bytes in seeds() {
        for chunk_bytes in [1, 2, 5, 64, 255] {
            exercise::exercise(&[&[chunk_bytes], &bytes[..]].concat());
        }
    }
}

#[test]
fn damaged() {
    damage::damaged(&seeds(), b" \r\n0129VAENq", false, exercise::exercise);
}
