//! `enroute fabric run --threads 2` prints the bytes of `--threads 1`, and says what needs one.

use std::process::Command;

fn run(arguments: &[&str]) -> (Vec<u8>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .args(["fabric", "run", "--json", "--trace", "hadoop", "--share", "0.001"])
        .args(arguments)
        .output()
        .expect("enroute runs");
    (output.stdout, String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn two_threads_print_what_one_prints() {
    let (alone, said) = run(&[]);
    assert!(said.contains(" s of one core, "), "{said}");
    let (together, said) = run(&["--threads", "2"]);
    assert!(said.contains(" s of 2 cores in "), "{said}");
    assert!(!alone.is_empty() && alone == together, "two threads differ");
}

#[test]
fn what_needs_one_thread_is_refused() {
    for (arguments, expected) in [
        (&["--threads", "3"][..], "threads: expected 1 to 2, got 3"),
        (
            &["--threads", "2", "--model", "published"],
            "threads: expected 1, because the quirk one-event-queue is on, got 2",
        ),
        (
            &["--threads", "2", "--series", "/nonexistent/series"],
            "threads: expected 1, because the run is sampled over time, got 2",
        ),
    ] {
        let (printed, said) = run(arguments);
        assert!(printed.is_empty() && said.contains(expected), "{arguments:?}: {said}");
    }
}
