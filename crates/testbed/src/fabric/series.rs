//! A run over time: one line of JSON for each sample, with the totals up to then.

use std::{fs, path::Path};

use ::fabric::Sample;
use anyhow::Context;
use serde_json::{Value, json};

/// Writes all samples of a run.
///
/// # Errors
///
/// An error of the file system.
pub fn write(samples: &[Sample], path: &Path) -> anyhow::Result<()> {
    let mut text = String::new();
    for sample in samples {
        text += &line(sample).to_string();
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn line(sample: &Sample) -> Value {
    let (packets, hits): (Vec<u64>, Vec<u64>) = sample.switches.iter().copied().unzip();
    json!({
        "at_us": sample.at_ns as f64 / 1e3,
        "packets_sent": sample.sent,
        "packets_received": sample.received,
        "packets_dropped": sample.dropped,
        "packets_in_flight": sample.in_flight,
        "gateway_packets": sample.gateway_packets,
        "misdelivered": sample.misdelivered,
        "switch_packets": packets,
        "switch_hits": hits,
    })
}
