//! `enroute fabric` reports file, line and the expected value of a mistake, and starts nothing.

use std::{fs, process::Command};

use crate::support::directory::TemporaryDirectory;

/// Runs a command that must fail; returns its standard error.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .arg("fabric")
        .args(arguments)
        .output()
        .expect("enroute runs");
    assert_eq!(output.status.code(), Some(1), "{arguments:?} was not refused");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_bad_trace_line_is_named() {
    let directory = TemporaryDirectory::create();
    let trace = directory.path().join("bad.csv");
    fs::write(&trace, "1,2,0,1,100\n1,2,zero,2,100\n").unwrap();
    let said = refused(&["run", "--trace", &trace.to_string_lossy()]);
    assert!(said.contains("bad.csv:2: expected the start in nanoseconds"), "{said}");
    let said = refused(&["run", "--trace", "/nowhere/x.csv.gz"]);
    assert!(said.contains("cannot open the trace /nowhere/x.csv.gz"), "{said}");
}

/// A valid number that is out of range for this protocol and model.
#[test]
fn a_row_that_cannot_run_is_named_before_anything_runs() {
    let directory = TemporaryDirectory::create();
    let trace = directory.path().join("bad.csv");
    fs::write(&trace, "1,200,0,1,100\n\n1,200,5,2,0\n").unwrap();
    let trace = trace.to_string_lossy();
    let said = refused(&["run", "--trace", &trace]);
    assert!(said.contains("bad.csv:3: bytes: expected 1 to 4000000000, got 0"), "{said}");
    let said = refused(&["run", "--protocol", "udp", "--trace", &trace]);
    assert!(said.contains("bad.csv:3: bytes: expected 1 to 8192, got 0"), "{said}");
    // In a sweep, before the runs that are valid.
    let sweep = directory.path().join("experiment.toml");
    fs::write(&sweep, "schemes = [\"direct\"]\ntraces = [\"incast\", \"bad.csv\"]\n").unwrap();
    let said = refused(&["sweep", &sweep.to_string_lossy()]);
    assert!(said.contains("bad.csv:3: bytes"), "{said}");
    assert!(!sweep.with_extension("results").exists(), "a results file was created");
}

#[test]
fn bad_names_list_the_good_ones() {
    let cases: [(&[&str], &str); 8] = [
        (&["--trace", "hadop"], "hadoop, websearch, rpc, microbursts, video, incast"),
        (&["--trace", "incast", "--scheme", "x"], "nocache, locallearning, gwcache, bluebird"),
        (&["--trace", "incast", "--topology", "x"], "ft8-10k, ft16-400k"),
        (&["--trace", "incast", "--model", "x"], "paper or published"),
        (&["--trace", "incast", "--quirk", "x=on"], "one-shot-vector"),
        (&["--trace", "hadoop", "--share", "0.001", "--transport", "x"], "cubic or dctcp"),
        (&["--trace", "incast", "--migrate", "1:2"], "VM:SERVER@TIME"),
        (&["--trace", "incast", "--cache", "half"], "for example 50%"),
    ];
    for (arguments, expected) in cases {
        let said = refused(&[&["run"], arguments].concat());
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_rack_of_nothing_is_named() {
    for (option, expected) in [
        ("--servers=0", "servers: expected 1 to 65536, got 0"),
        ("--skew=2", "skew: expected 0 to less than 2, got 2"),
        ("--writes=1.5", "writes: expected 0 to 1, got 1.5"),
        ("--qps=0", "qps: expected at least 1, got 0"),
        ("--queries=0", "queries: expected at least 1, got 0"),
    ] {
        let said = refused(&["rack", option]);
        assert!(said.contains(expected), "{option}: {said}");
    }
}

#[test]
fn a_bad_experiment_file_is_named_with_line_and_column() {
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("experiment.toml");
    let cases = [
        ("schemes = [\"direct\"]\n", "experiment.toml:1:1: missing field `traces`"),
        ("schemes = [\"direct\"]\ntrace = []\n", "experiment.toml:2:1: unknown field `trace`"),
        ("schemes = [\"direct\"]\ntraces = [\"no.csv\"]\n", "no.csv"),
        ("schemes = []\ntraces = [\"incast\"]\n", "an empty list"),
        (
            "traces = [\"incast\"]\nschemes = [\"direct\",\n  \"x\"]\n",
            "experiment.toml:3:3: unknown scheme \"x\": expected one of nocache",
        ),
        (
            "traces = [\"incast\"]\nschemes = [\"direct\"]\ntopologies = [\"x\"]\n",
            "experiment.toml:3:15: topology: expected one of ft8-10k",
        ),
        (
            "traces = [\"incast\"]\nschemes = [\"direct\"]\ncaches = [\"half\"]\n",
            "experiment.toml:3:11: cache: expected a size",
        ),
        (
            "traces = [\"incast\"]\nschemes = [\"direct\"]\nquirks = [{ x = true }]\n",
            "experiment.toml:3:11: quirk: expected one of spines",
        ),
    ];
    for (text, expected) in cases {
        fs::write(&file, text).unwrap();
        let said = refused(&["sweep", &file.to_string_lossy()]);
        assert!(said.contains(expected), "{text:?}: {said}");
        assert!(!file.with_extension("results").exists(), "a results file was created");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_refused() {
    let said = refused(&["run", "--trace", "incast", "--cache", "68719476736"]);
    assert!(said.contains("GiB of memory would be needed"), "{said}");
    assert!(said.contains("GiB are available"), "{said}");
    // Refused before it is generated: nine billion rows.
    let huge = ["--trace", "hadoop", "--topology", "ft16-400k", "--share", "1000"];
    for command in [&["run"][..], &["generate", "hadoop", "--output", "/dev/null"]] {
        let rest = if command.len() > 1 { &huge[2..] } else { &huge[..] };
        let said = refused(&[command, rest].concat());
        assert!(said.contains("GiB of memory would be needed for 9"), "{said}");
    }
}
