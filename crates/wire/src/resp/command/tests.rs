use std::collections::HashSet;

use super::*;
use crate::resp::{Limits, request};

/// The command's row, and its keys.
fn call(words: &str) -> (Option<&'static Command>, Option<Vec<String>>) {
    let mut bytes = Vec::new();
    let arguments: Vec<&str> =
        words.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
    request::write_command(&mut bytes, &arguments);
    let (request, _) = request::decode(&bytes, &Limits::default()).unwrap().unwrap();
    let command = find(&request);
    let keys = command.and_then(|command| command.keys(&request).ok());
    let keys = keys.map(|keys| keys.map(|key| key.escape_ascii().to_string()).collect());
    (command, keys)
}

fn keys(words: &str) -> String {
    call(words).1.map_or_else(|| "unknown".to_owned(), |keys| keys.join(" "))
}

fn effect(words: &str) -> Option<Effect> {
    call(words).0.map(|command| command.effect)
}

#[test]
fn finds_every_row_in_any_case() {
    let mut names = HashSet::new();
    for command in all() {
        assert!(names.insert(command.name), "{} is listed twice", command.name);
        for name in [command.name.to_owned(), command.name.to_ascii_uppercase()] {
            assert_eq!(lookup(name.as_bytes()).map(|found| found.name), Some(command.name));
        }
        for sub in command.subcommands {
            assert!(names.insert(sub.name), "{} is listed twice", sub.name);
            assert_eq!(
                sub.name.split_once('|').map(|(container, _)| container),
                Some(command.name)
            );
            assert!(sub.subcommands.is_empty());
        }
    }
    assert!(names.len() > 350, "{}", names.len());
}

#[test]
fn knows_nothing_else() {
    for name in
        ["", "g", "ge", "gett", "get\0", "\u{7}et", "client|list", "ft.search", "zzzzzzzzzzzzzz"]
    {
        assert!(lookup(name.as_bytes()).is_none(), "{name}");
    }
    // Differs from RESTORE-ASKING only in the bit that separates upper from lower case.
    assert!(lookup(b"restore\rasking").is_none());
    assert_eq!(effect("CLIENT NONSENSE"), None);
}

#[test]
fn tells_effects_apart() {
    assert_eq!(effect("get k"), Some(Effect::Read));
    assert_eq!(effect("MGET a b"), Some(Effect::ReadMany(Split::Elements)));
    assert_eq!(effect("EXISTS a b"), Some(Effect::ReadMany(Split::Sum)));
    assert_eq!(effect("SINTER a b"), Some(Effect::ReadMany(Split::Whole)));
    assert_eq!(effect("TTL k"), Some(Effect::ReadUncacheable));
    assert_eq!(effect("GETEX k"), Some(Effect::Write));
    assert_eq!(effect("FLUSHDB"), Some(Effect::WriteDatabase));
    assert_eq!(effect("SWAPDB 0 1"), Some(Effect::WriteEverything));
    assert_eq!(effect("EXEC"), Some(Effect::Transaction));
    assert_eq!(effect("client tracking on"), Some(Effect::Connection));
    assert_eq!(effect("ACL SetUser bob"), Some(Effect::Access));
    assert_eq!(effect("ACL WHOAMI"), Some(Effect::Other));
    assert_eq!(effect("ACL"), Some(Effect::Other));
    assert_eq!(effect("XGROUP CREATE k g 0"), Some(Effect::Write));
    assert_eq!(effect("SUBSCRIBE c"), Some(Effect::PubSub));
    assert_eq!(effect("CONFIG GET x"), Some(Effect::Other));
}

#[test]
fn finds_keys() {
    let cases = [
        ("PING", ""),
        ("GET k", "k"),
        ("DEL a b c", "a b c"),
        ("MSET a 1 b 2", "a b"),
        ("BITOP AND d a b", "d a b"),
        ("BLPOP a b 0", "a b"),
        ("RENAME a b", "a b"),
        ("OBJECT ENCODING k", "k"),
        ("EVAL x 2 a b c", "a b"),
        ("EVAL x 0 a", ""),
        ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
        ("BLMPOP 0 2 a b LEFT", "a b"),
        ("MSETEX 2 a 1 b 2 EX 9", "a b"),
        ("XREAD COUNT 2 BLOCK 0 STREAMS a b 0 0", "a b"),
        ("XREADGROUP GROUP STREAMS c NOACK STREAMS a >", "a"),
        ("SORT k BY w LIMIT 0 9 GET STORE DESC STORE d", "k d"),
        ("SORT k STORE a STORE b", "k b"),
        ("GEORADIUS k 1 2 3 m STORE a STOREDIST b", "k b"),
        ("GEORADIUSBYMEMBER k STORE 3 m", "k"),
        ("MIGRATE h 1 k 0 9 COPY AUTH KEYS", "k"),
        ("MIGRATE h 1 '' 0 9 AUTH2 u p KEYS a b", "a b"),
        ("JSON.MGET a b $", "a b"),
    ];
    for (words, expected) in cases {
        assert_eq!(keys(words), expected, "{words}");
    }
}

#[test]
fn admits_when_keys_cannot_be_told() {
    let cases = [
        "GET",
        "RENAME a",
        "BLPOP",
        "EVAL x",
        "EVAL x y a",
        "EVAL x 2 a",
        "EVAL x -1 a",
        "EVAL x 18446744073709551615 a",
        "MSETEX 2 a 1 b",
        "XREAD STREAMS a b 0",
        "XREAD STREAMS",
        "XREAD WHAT STREAMS a 0",
        "XREAD COUNT",
        "SORT k STORE",
        "SORT k WHAT",
        "GEORADIUS k 1 2 3 m STORE",
        "MIGRATE h 1 '' 0 9",
        "MIGRATE h 1 k 0 9 KEYS a",
    ];
    for words in cases {
        assert_eq!(keys(words), "unknown", "{words}");
    }
}

#[test]
fn counts_arguments_like_the_server() {
    let get = lookup(b"get").unwrap();
    assert_eq!([1, 2, 3].map(|arguments| get.accepts(arguments)), [false, true, false]);
    let mget = lookup(b"mget").unwrap();
    assert_eq!([1, 2, 3].map(|arguments| mget.accepts(arguments)), [false, true, true]);
}

#[test]
fn what_is_kept_depends_on_keys() {
    for command in all() {
        if matches!(command.effect, Effect::Read | Effect::ReadMany(_)) {
            assert_ne!(command.keys, Keys::None, "{}", command.name);
            for never in [Flags::BLOCKING, Flags::SCRIPT, Flags::OTHER_DATABASE, Flags::WRITE] {
                assert!(!command.flags.contains(never), "{}: {never:?}", command.name);
            }
        }
    }
}
