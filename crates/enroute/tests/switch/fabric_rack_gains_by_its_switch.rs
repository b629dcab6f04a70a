//! `enroute fabric rack`: the simulation of NetCache's rack.

use std::process::Command;

use serde_json::Value;

/// One line of JSON.
fn said(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .args(["fabric", "rack", "--json", "--queries=100000"])
        .args(arguments)
        .output()
        .expect("enroute runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn number(text: &str, name: &str) -> f64 {
    let result: Value = serde_json::from_str(text).expect("JSON");
    result[name].as_f64().unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn the_same_rack_says_the_same_and_gains_by_its_switch() {
    let with = said(&["--skew=0.99"]);
    assert_eq!(with, said(&["--skew=0.99"]));
    assert_ne!(with, said(&["--skew=0.99", "--seed=2"]));
    let without = said(&["--skew=0.99", "--cached=0"]);
    let gain = number(&with, "throughput_qps") / number(&without, "throughput_qps");
    assert!(gain > 9.0, "{gain} times");
    assert_eq!(number(&without, "switch_qps"), 0.0);
    assert!(number(&with, "loss") <= 0.005);
}

#[test]
fn written_items_are_not_the_switch_s_to_answer() {
    let uniform = said(&["--writes=0.2"]);
    let skewed = said(&["--writes=0.2", "--write-skew=0.99"]);
    assert!(number(&uniform, "throughput_qps") > 2.0 * number(&skewed, "throughput_qps"));
    assert!(number(&skewed, "invalidated") > number(&uniform, "invalidated"));
}
