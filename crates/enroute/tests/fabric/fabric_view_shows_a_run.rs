//! `enroute fabric view` writes one page with the run: the fabric, its switches over time, and the
//! paths of packets. `run --series` writes the same samples as lines of JSON.

use std::{fs, path::Path, process::Command};

use crate::support::directory::TemporaryDirectory;
use serde_json::Value;

const RUN: [&str; 6] = ["--trace", "incast", "--cache", "960", "--migrate", "5200:68@500us"];

fn fabric(command: &str, arguments: &[&str], path: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .args(["fabric", command])
        .args(RUN)
        .args(arguments)
        .arg(path)
        .output()
        .expect("enroute runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_page_holds_the_run() {
    let directory = TemporaryDirectory::create();
    let path = directory.path().join("incast.html");
    fabric("view", &["--output"], &path);
    let page = fs::read_to_string(&path).expect("a page");
    for outside in ["src=\"http", "href=\"http", "import "] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
    let begin = page.find("{\"inputs\":").expect("the run");
    let run: Value = serde_json::Deserializer::from_str(&page[begin..])
        .into_iter()
        .next()
        .expect("a value")
        .expect("JSON");
    assert_eq!(run["topology"]["pods"], 8);
    let moments = run["samples"]["at_ns"].as_array().expect("moments").len();
    assert!(moments > 100, "{moments}");
    assert_eq!(run["samples"]["hits"][0].as_array().map(Vec::len), Some(80));
    let sent = |name: &str| -> u64 {
        let each = run["samples"][name].as_array().expect("numbers");
        each.iter().filter_map(Value::as_u64).sum()
    };
    assert_eq!(sent("sent"), 64_000);
    assert_eq!(Some(sent("gateway")), run["results"]["gateway_packets"].as_u64());
    assert_eq!(Some(sent("misdelivered")), run["results"]["misdelivered"].as_u64());
    // A packet's path leads from server to server through switches.
    let packets = run["packets"].as_array().expect("packets");
    let ways: Vec<&str> = packets.iter().filter_map(|packet| packet["way"].as_str()).collect();
    for way in ["gateway", "hit"] {
        assert!(ways.contains(&way), "no packet went by {way}");
    }
    let steps = packets[0]["steps"].as_array().expect("steps");
    assert!(steps.len() >= 3, "{steps:?}");
    for end in [&steps[0], &steps[steps.len() - 1]] {
        assert!(end["what"].as_str().is_some_and(|what| what.starts_with("server")), "{end}");
    }
    assert!(steps[1]["switch"].is_u64());
}

#[test]
fn a_series_adds_up_to_the_result() {
    let directory = TemporaryDirectory::create();
    let path = directory.path().join("series.jsonl");
    fabric("run", &["--every", "5us", "--series"], &path);
    let text = fs::read_to_string(&path).expect("a series");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.len() > 200, "{}", lines.len());
    let number = |line: &Value, name: &str| line[name].as_u64().expect("a number");
    for pair in lines.windows(2) {
        assert!(number(&pair[0], "packets_sent") <= number(&pair[1], "packets_sent"));
        let step_us = pair[1]["at_us"].as_f64().unwrap() - pair[0]["at_us"].as_f64().unwrap();
        assert!((step_us - 5.0).abs() < 1e-9, "{step_us}");
    }
    let last = lines.last().expect("a line");
    assert_eq!((number(last, "packets_sent"), number(last, "packets_in_flight")), (64_000, 0));
    assert_eq!(last["switch_hits"].as_array().map(Vec::len), Some(80));
}
