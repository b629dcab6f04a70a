//! One table of the guide states what can be stale, for how long and why (`docs/guide/bounds.md`),
//! and another page how much an unauthenticated client may send. Each number that is a constant of
//! the program is compared with the code: change both together.

use std::{
    fs,
    path::{Path, PathBuf},
};

const BOUNDS: &str = "docs/guide/bounds.md";
const CONFIGURATION: &str = "docs/guide/configuration.md";

/// A page, text that it must contain, a source file, and the line in it that sets the number.
#[rustfmt::skip]
const NUMBERS: &[(&str, &str, &str, &str)] = &[
    // Cache.
    (BOUNDS, "| the same, if the connection of the feed stops delivering without being closed | 5 s |", "crates/cache/src/feed.rs", "silence_max: Duration::from_secs(5),"),
    (BOUNDS, "the cache sends a `PING` each second", "crates/cache/src/feed.rs", "ping_interval: Duration::from_secs(1),"),
    (BOUNDS, "a slow reader) | 5 s |", "crates/cache/src/feed.rs", "silence_max: Duration::from_secs(5),"),
    (BOUNDS, "| five times `interval`, at least 5 s, and the delay of the stream;", "crates/cache/src/feed.rs", "INTERVALS_MISSED: u32 = 5;"),
    (BOUNDS, "streams are listed and described every 10 s", "crates/cache/src/feed/dynamodb.rs", "REFRESH: Duration = Duration::from_secs(10);"),
    (BOUNDS, "asks for the origin's identity every second", "crates/enroute/src/runtime/watch.rs", "ASK_INTERVAL: Duration = Duration::from_secs(1);"),
    (BOUNDS, "| up to 6 s after the origin is back;", "crates/enroute/src/runtime/watch.rs", "SILENCE_MAX: Duration = Duration::from_secs(5);"),
    (BOUNDS, "they are asked every second |", "crates/cache/src/monitor.rs", "poll_interval: Duration::from_secs(1),"),
    (BOUNDS, "before MongoDB 4.4 are asked each second |", "crates/cache/src/monitor.rs", "poll_interval: Duration::from_secs(1),"),
    (BOUNDS, "the cache subtracts two |", "crates/cache/src/filter/memcache/flush.rs", "CLOCK: Duration = Duration::from_secs(2);"),
    (BOUNDS, "the reply is not stored within 2 s of a write", "crates/cache/src/filter/dynamodb/tables.rs", "SETTLES: Duration = Duration::from_secs(2);"),
    (CONFIGURATION, "the limit is 16 KiB instead of 1 MiB", "crates/cache/src/session/config.rs", "stranger_held_bytes_max: 16 << 10,"),
    // Key server.
    (BOUNDS, "those of the last second | lines are written before the answer", "crates/keyservice/src/audit.rs", "SYNC_EVERY: Duration = Duration::from_secs(1);"),
    // Edge.
    (BOUNDS, "| a validator | 24 h beyond freshness |", "crates/content/src/entry.rs", "VALIDATOR_KEPT: Duration = Duration::from_secs(24 * 3600);"),
    (BOUNDS, "`Last-Modified`, at most a day |", "crates/content/src/entry.rs", "GUESSED_MAX: Duration = Duration::from_secs(24 * 3600);"),
    (BOUNDS, "| 10 s after three ordinary responses", "crates/content/src/marks.rs", "KEPT_FOR: Duration = Duration::from_secs(10);"),
    (BOUNDS, "| 10 s after three ordinary responses", "crates/content/src/marks.rs", "MARKED_AFTER: u8 = 3;"),
    (BOUNDS, "never, unless 65,536 others are outstanding", "crates/content/src/owed.rs", "OWED_MAX: usize = 1 << 16;"),
    // Data plane. 64 attempts, with an interval that doubles from 5 to 160 ms, take 9.6 s.
    (BOUNDS, "| 50 ms, what the agent waits for the disk", "crates/enroute/src/switch/agent.rs", "WAIT: Duration = Duration::from_millis(50);"),
    (BOUNDS, "each message that is lost adds 5 to 160 ms", "crates/switch/src/agent/config.rs", "resend: Duration::from_millis(5),"),
    (BOUNDS, "each message that is lost adds 5 to 160 ms", "crates/switch/src/agent/config.rs", "resend_max: Duration::from_millis(160),"),
    (BOUNDS, "It asks the switch 64 times, then starts over", "crates/switch/src/agent/config.rs", "tries_max: 64,"),
    (BOUNDS, "the switch serves nothing beyond its lease (5 s)", "crates/switch/src/agent/config.rs", "lease: Duration::from_secs(5),"),
    (BOUNDS, "the lifetime of the item, at most an hour", "crates/switch/src/controller/mod.rs", "item_lives_max: Duration::from_secs(3600),"),
    (BOUNDS, "a quiet write that is applied more than 50 ms after it passed", "crates/switch/bpf/maps.h", "FILL_WAIT_NS = 50000000,"),
    (BOUNDS, "during 50 ms, or 1 s if everything was dropped", "crates/switch/bpf/maps.h", "UNCLEAR_WAIT_NS = 1000000000,"),
    (BOUNDS, "a write of a connection that is silent for 4 s", "crates/switch/src/asking.rs", "SILENT: Duration = Duration::from_secs(4);"),
    (BOUNDS, "the difference between the clocks of server and switch beyond 2 s", "crates/switch/bpf/delays.h", "CLOCK_LATE_S = 2 }"),
    // State layer.
    (BOUNDS, "at most 1 s if the agent is cut off", "crates/state/src/agent/copies.rs", "COPY_LEASE: Duration = Duration::from_secs(1);"),
    (BOUNDS, "one batch of 64 keys", "crates/state/src/migration.rs", "KEYS_MAX: usize = 64;"),
    (BOUNDS, "the agent retries every 5 ms", "crates/state/src/agent/answers.rs", "PAUSE: Duration = Duration::from_millis(5);"),
    (BOUNDS, "| from 5 s after the slot lost its owner until a placer", "crates/state/src/agent.rs", "RETRY_FOR: Duration = Duration::from_secs(5);"),
    (BOUNDS, "or the node sent nothing for 12 s", "crates/enroute/src/state/links.rs", "SILENCE_LIMIT: Duration = Duration::from_secs(12);"),
    (BOUNDS, "| 12 to 13 s | the agent closes", "crates/enroute/src/state/links.rs", "SILENCE_PERIOD: Duration = Duration::from_secs(1);"),
    (BOUNDS, "| up to 8 s after a placer was killed;", "crates/state/src/lease.rs", "LEASE: Duration = Duration::from_secs(8);"),
    // Memory.
    (BOUNDS, "replies above 8 MiB are dropped", "crates/state/src/agent/held.rs", "WHOLE_BYTES_MAX: usize = 8 << 20;"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn bounds_of_the_guide_are_those_of_the_code() {
    let mut wrong = Vec::new();
    for (page, stated, file, line) in NUMBERS {
        if !read(page).contains(stated) {
            wrong.push(format!("{page} does not state: {stated}"));
        }
        if !read(file).contains(line) {
            wrong.push(format!("{file} does not say: {line}\n  {page} states: {stated}"));
        }
    }
    assert!(wrong.is_empty(), "change both, and this list:\n{}", wrong.join("\n"));
}

/// The columns of a row: what, for how long, and why.
#[test]
fn every_row_states_how_long_and_why() {
    let page = read(BOUNDS);
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{row}");
        count += 1;
    }
    assert!(count > 60, "only {count} rows");
}

/// The guides of single services refer to the table and have none of their own.
#[test]
fn there_is_one_table() {
    for entry in fs::read_dir(root().join("docs/guide")).expect("the guide").flatten() {
        let path = entry.path();
        let text = fs::read_to_string(&path).expect("a page");
        let has_one = text.lines().any(|line| line.starts_with("| what | for how long |"));
        assert_eq!(has_one, path.ends_with("bounds.md"), "{}", path.display());
    }
}
