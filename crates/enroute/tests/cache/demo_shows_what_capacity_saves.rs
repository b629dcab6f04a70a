//! The `demo` of the real binary: keys that fit are served from storage, and Ctrl-C ends it with
//! results.

use std::process::Command;

use crate::support::process::{Ended, Process};
use serde_json::Value;

fn demo(seconds: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
    Process::start(command.args(["demo", "--json", "--seconds", seconds]))
}

fn rows(ended: &Ended) -> Vec<Value> {
    assert!(ended.status.success(), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("no {column} in {row}"))
}

#[test]
fn demo_shows_what_capacity_saves() {
    // On a busy machine three seconds may be too short to read any key twice.
    let mut tables = ["3", "10", "30"].into_iter().map(|seconds| rows(&demo(seconds).wait()));
    let has_hits = |rows: &Vec<Value>| number(&rows[4], "hit_ratio") > 0.1;
    let rows = tables.find(has_hits).expect("a table with hits");
    let capacities: Vec<f64> = rows.iter().map(|row| number(row, "capacity")).collect();
    assert_eq!(capacities, [0.0, 10.0, 30.0, 70.0, 100.0]);
    let (none, all) = (&rows[0], &rows[4]);
    assert_eq!(number(none, "hit_ratio"), 0.0);
    // The emulated path never takes less than its round trip.
    assert!(number(none, "mean_ms") >= 164.0, "{none}");
    assert!(number(all, "mean_ms") < number(none, "mean_ms"), "{all} {none}");
    for column in ["reads", "p50_ms", "p99_ms", "reads_per_s", "ideal_ms", "paper_ms"] {
        assert!(rows.iter().all(|row| number(row, column) > 0.0), "{column}");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_was_read() {
    let demo = demo("3600");
    demo.stderr_line("capacity 100").expect("it shows its progress");
    demo.signal("INT");
    assert_eq!(rows(&demo.wait()).len(), 5);
}
