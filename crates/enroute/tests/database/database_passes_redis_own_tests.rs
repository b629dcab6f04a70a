//! The string, bit, expiry, scan, generic, transaction and tracking parts of Redis's test suite
//! with `enroute db`.
//!
//! Skipped tests are listed with the reason in `database/skipped_redis_tests.txt`.

use std::path::Path;
use std::process::Command;

use crate::support::{database::Database, directory::installed, origins, process::free_address};

/// Parts of the suite, each with the number of tests that must pass.
const PARTS: &[(&str, usize)] = &[
    ("unit/type/string", 70),
    ("unit/expire", 57),
    ("unit/keyspace", 41),
    ("unit/scan", 5),
    ("unit/bitops", 44),
    ("unit/bitfield", 16),
    ("unit/multi", 23),
    ("unit/tracking", 47),
];

#[test]
#[ignore = "four minutes: make soak"]
fn redis_own_tests_pass() {
    let suite = installed("redis-tests");
    if !suite.join("runtest").is_file()
        && origins::absent::<()>("Redis's tests are not installed under .deps/").is_none()
    {
        return;
    }
    let skipped =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/database/skipped_redis_tests.txt");
    for (part, least) in PARTS {
        let database = Database::start_with(&["--memory", "128MiB"]);
        let port = database.address().port().to_string();
        let output = Command::new(suite.join("runtest"))
            .args(["--host", "127.0.0.1", "--port", &port, "--single", part, "--clients", "1"])
            // Ports of the suite's servers: concurrent runs must not share them.
            .args(["--baseport", &free_address().port().to_string()])
            .args(["--ignore-encoding", "--skipfile"])
            .arg(&skipped)
            .current_dir(&suite)
            .output()
            .expect("the suite runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = |mark: &str| said.matches(&format!("m{mark}\u{1b}")).count();
        let failed: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("merr\u{1b}") || line.contains("exception"))
            .collect();
        eprintln!("{part}: {} passed", count("ok"));
        assert!(failed.is_empty(), "{part}:\n{}", failed.join("\n"));
        assert!(count("ok") >= *least, "{part}: only {} tests were run:\n{said}", count("ok"));
    }
}
