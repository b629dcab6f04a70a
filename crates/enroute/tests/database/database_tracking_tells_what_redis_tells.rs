//! The same conversations about CLIENT TRACKING with redis-server and with `enroute db`: the push
//! messages are the same.

use std::net::SocketAddr;

use crate::support::{database::Database, frames::Side, origins::Redis};

/// Returns the push messages to the tracking client in all modes.
fn conversation(address: SocketAddr) -> Vec<String> {
    let mut said = Vec::new();
    let (mut reader, mut writer) = (Side::connect(address), Side::connect(address));
    reader.words("hello 3");
    for (name, setting, steps) in SCENES {
        writer.words("flushall");
        reader.pushed();
        said.push(format!("-- {name}"));
        for line in *setting {
            said.push(reader.words(line).escape_ascii().to_string());
        }
        for step in *steps {
            match step.strip_prefix("r ") {
                Some(line) => said.push(reader.words(line).escape_ascii().to_string()),
                None => drop(writer.words(step)),
            }
            said.extend(reader.pushed());
        }
        reader.words("client tracking off");
    }
    said.extend(redirected(address));
    said
}

/// Name, the reader's first commands, then commands of the writer, or of the reader after "r ".
const SCENES: &[(&str, &[&str], &[&str])] = &[
    (
        "default mode names what was read, once",
        &["client tracking on"],
        &[
            "set a 1",
            "r get a",
            "set a 2",
            "set a 3",
            "r mget a b",
            "set b 1",
            "del a",
            "set c 1",
            "r get c",
            "set c 1",
            "incr a",
        ],
    ),
    (
        "own writes are told",
        &["client tracking on"],
        &["r get a", "r set a 1", "set a 2", "r get a", "set a 1"],
    ),
    (
        "own writes are not told with noloop",
        &["client tracking on noloop"],
        &["r get a", "r set a 1", "r get a", "set a 2"],
    ),
    (
        "a flush tells everything",
        &["client tracking on"],
        &["set a 1", "r get a", "flushall", "r get a", "flushdb"],
    ),
    (
        "an expired key is told",
        &["client tracking on"],
        &["set a 1", "r get a", "pexpireat a 1", "r get a"],
    ),
    (
        "rename and copy name both ends",
        &["client tracking on"],
        &["set a 1", "r mget a b c", "rename a b", "r mget a b c", "copy b c"],
    ),
    (
        "a transaction's writes are told",
        &["client tracking on"],
        &["r get a", "multi", "set a 1", "exec"],
    ),
    (
        "optin remembers what was announced",
        &["client tracking on optin"],
        &["r get a", "set a 1", "r client caching yes", "r get a", "set a 2"],
    ),
    (
        "optout forgets what was excluded",
        &["client tracking on optout"],
        &["r get a", "set a 1", "r client caching no", "r get b", "set b 2"],
    ),
    (
        "broadcast names every key with a prefix",
        &["client tracking on bcast prefix user: prefix item:"],
        &["set user:1 x", "set other x", "del user:1", "set item:7 y", "r set item:8 z"],
    ),
    (
        "broadcast without prefix names every key",
        &["client tracking on bcast noloop"],
        &["set a 1", "r set b 2", "append a x"],
    ),
];

/// Invalidations that RESP2 redirects to a subscription on another connection.
fn redirected(address: SocketAddr) -> Vec<String> {
    let mut said = vec!["-- redirect".to_owned()];
    let (mut reader, mut writer, mut ear) =
        (Side::connect(address), Side::connect(address), Side::connect(address));
    let id = String::from_utf8(ear.words("client id")).expect("a number");
    let id = id.trim_start_matches(':').trim();
    said.push(ear.words("subscribe __redis__:invalidate").escape_ascii().to_string());
    said.push(
        reader.words(&format!("client tracking on redirect {id}")).escape_ascii().to_string(),
    );
    for key in ["a", "b"] {
        reader.words(&format!("get {key}"));
        writer.words(&format!("set {key} 1"));
        // A round trip of the writer: its writes were reported.
        writer.words("ping");
        said.extend(ear.pushed());
    }
    writer.words("flushall");
    writer.words("ping");
    said.extend(ear.pushed());
    said.push(reader.words("client getredir").escape_ascii().to_string().replace(id, "ID"));
    said
}

#[test]
fn what_is_told_unasked_is_the_same() {
    let Some(redis) = Redis::start() else { return };
    let database = Database::start_with(&["--workers", "2"]);
    let (ours, theirs) = (conversation(database.address()), conversation(redis.address()));
    for (at, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        let before = &theirs[at.saturating_sub(12)..at];
        assert_eq!(a, b, "enroute db, and redis-server; before that\n{}", before.join("\n"));
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(theirs.iter().filter(|line| line.contains("invalidate")).count() > 15);
}
