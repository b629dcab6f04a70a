//! A sweep keeps every finished run and resumes after a stop; its results are byte for byte the
//! same as without the stop.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::support::directory::TemporaryDirectory;
use rustix::process::{Pid, Signal, kill_process};

const EXPERIMENT: &str = "\
schemes = [\"nocache\", \"gwcache\", \"switchv2p\", \"direct\"]
traces = [\"incast\"]
topologies = [\"ft8-10k\"]
caches = [\"10%\", \"50%\"]
models = [\"published\"]
seeds = [1, 2]
";

/// NoCache and Direct have no caches: 2 runs of each, and 2 times 2 of the other two.
const RUNS: usize = 12;

const PATIENCE: Duration = Duration::from_secs(120);

fn sweep(file: &Path, output: &Path, jobs: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_enroute"))
        .args(["fabric", "sweep", "--jobs", jobs, "--output"])
        .args([output, file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("enroute starts")
}

fn finish(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("enroute ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn experiment(directory: &TemporaryDirectory) -> PathBuf {
    let file = directory.path().join("experiment.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    file
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_interrupted_sweep_loses_only_what_was_under_way() {
    let directory = TemporaryDirectory::create();
    let file = experiment(&directory);
    let (whole, parts) = (directory.path().join("whole"), directory.path().join("parts"));
    let (status, said) = finish(sweep(&file, &whole, "2"));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(&format!("{RUNS} runs: 0 done before, {RUNS} now")), "{said}");

    let results = parts.join("results.jsonl");
    let child = sweep(&file, &parts, "1");
    let began = Instant::now();
    while lines(&results).len() < 2 {
        assert!(began.elapsed() < PATIENCE, "no run finished");
        thread::sleep(Duration::from_millis(2));
    }
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::INT).expect("it runs");
    let (status, said) = finish(child);
    let kept = lines(&results).len();
    assert!(kept >= 2, "finished runs were lost");
    if kept < RUNS {
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("run the same command to resume"), "{said}");
    }

    // As if it had been killed during a write.
    let mut text = fs::read_to_string(&results).unwrap();
    text.push_str("{\"scheme\":\"swi");
    fs::write(&results, text).unwrap();
    let (status, said) = finish(sweep(&file, &parts, "2"));
    assert_eq!(status, Some(0), "{said}");
    let expected = format!("{RUNS} runs: {kept} done before, {} now", RUNS - kept);
    assert!(said.contains(&expected), "{said}");
    for name in ["results.jsonl", "results.csv"] {
        assert_eq!(lines(&whole.join(name)), lines(&parts.join(name)), "{name}");
    }
    assert_eq!(lines(&whole.join("results.csv")).len(), RUNS + 1);

    // Nothing is left to do, and nothing changes.
    let (status, said) = finish(sweep(&file, &parts, "2"));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(&format!("{RUNS} done before, 0 now")), "{said}");
    assert_eq!(lines(&whole.join("results.jsonl")), lines(&results));
}

#[test]
fn a_file_that_is_no_result_is_named() {
    let directory = TemporaryDirectory::create();
    let file = experiment(&directory);
    let output = directory.path().join("results");
    fs::create_dir(&output).unwrap();
    fs::write(output.join("results.jsonl"), "{}\n").unwrap();
    let (status, said) = finish(sweep(&file, &output, "1"));
    assert_eq!(status, Some(1));
    assert!(said.contains("results.jsonl:1: expected a result of `enroute fabric`"), "{said}");
}
