//! Randomly damaged requests and replies of DynamoDB never panic, and decode the same for every
//! chunk size. The fuzz target `dynamodb` does the same for longer; its seeds are the corpus.

mod damage;
#[path = "dynamodb/exercise.rs"]
mod exercise;

/// The seeds, each without the byte that says where chunks end.
fn seeds() -> Vec<Vec<u8>> {
    let seeds = damage::corpus("../../fuzz/seeds/dynamodb", |_| true);
    assert!(seeds.len() >= 8, "seeds are missing");
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
    damage::damaged(&seeds(), b" \r\n0129:,{}\"a", false, exercise::exercise);
}
