//! A generated workload that was saved, compressed or not, gives the same run as generating it.

use std::{path::Path, process::Command};

use crate::support::directory::TemporaryDirectory;
use serde_json::Value;

fn fabric(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .arg("fabric")
        .args(arguments)
        .output()
        .expect("enroute runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The result of a run without its name.
fn run(trace: &str, share: &str) -> Value {
    let said =
        fabric(&["run", "--json", "--scheme", "gwcache", "--trace", trace, "--share", share]);
    let mut result: Value = serde_json::from_str(&said).expect("one line of JSON");
    result["trace"] = Value::Null;
    result
}

#[test]
fn saved_and_drawn_are_the_same_run() {
    let directory = TemporaryDirectory::create();
    let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    for (workload, share) in [("microbursts", "0.002"), ("hadoop", "0.0005")] {
        let drawn = run(workload, share);
        assert!(drawn["packets_sent"].as_u64() > Some(100), "{drawn}");
        for name in ["trace.csv", "trace.csv.gz"] {
            let path = file(name);
            fabric(&["generate", workload, "--share", share, "--output", &path]);
            assert!(!Path::new(&format!("{path}.part")).exists());
            assert_eq!(run(&path, "1"), drawn, "{workload} as {name}");
        }
    }
}
