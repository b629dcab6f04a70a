//! Random sequences of the words of commands: nothing panics, and the output consists of whole
//! replies.

#[path = "commands/exercise.rs"]
mod exercise;

use db::ROWS;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

const WORDS: &[&str] = &[
    "k",
    "k1",
    "",
    "0",
    "1",
    "-1",
    "5",
    "100000",
    "9223372036854775807",
    "4294967295",
    "abc",
    "1.5",
    "nx",
    "xx",
    "get",
    "ex",
    "px",
    "keepttl",
    "persist",
    "gt",
    "lt",
    "replace",
    "db",
    "idx",
    "len",
    "withmatchlen",
    "minmatchlen",
    "and",
    "not",
    "u8",
    "i64",
    "set",
    "incrby",
    "overflow",
    "sat",
    "fail",
    "#1",
    "bit",
    "byte",
    "match",
    "count",
    "type",
    "string",
    "on",
    "off",
    "bcast",
    "prefix",
    "optin",
    "optout",
    "noloop",
    "redirect",
    "tracking",
    "yes",
    "no",
    "id",
    "list",
    "kill",
    "setuser",
    "getuser",
    "+@all",
    "-get",
    "~*",
    ">pw",
    "default",
    "maxmemory",
    "16mb",
    "appendfsync",
    "always",
    "2",
    "3",
    "auth",
    "setname",
    "usage",
    "samples",
    "docs",
    "getkeys",
    "*",
    "[a-",
    "\\",
    "sleep",
    "object",
    "skip",
];

/// Random numbers from one seed.
struct Numbers(SplitMix64);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    fn next(&mut self, below: usize) -> usize {
        (self.0.next_u64() % below as u64) as usize
    }
}

fn conversation(numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..40 {
        let mut words: Vec<_> = ROWS[numbers.next(ROWS.len())].name().split('|').collect();
        for _ in 0..numbers.next(6) {
            words.push(WORDS[numbers.next(WORDS.len())]);
        }
        wire::resp::request::write_command(&mut bytes, &words);
    }
    bytes
}

#[test]
fn any_conversation_of_known_words_is_answered() {
    let mut commands = 0;
    for seed in 0..300 {
        commands += exercise::exercise(&conversation(&mut Numbers::new(seed)));
    }
    assert!(commands > 5_000, "only {commands} commands were given");
}

#[test]
fn any_bytes_end_the_conversation_at_worst() {
    for seed in 0..300 {
        let mut numbers = Numbers::new(seed);
        let mut bytes = conversation(&mut numbers);
        for _ in 0..8 {
            let at = numbers.next(bytes.len());
            bytes[at] = numbers.next(256) as u8;
        }
        exercise::exercise(&bytes);
    }
}
