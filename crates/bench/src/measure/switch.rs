//! What a packet costs in the kernel's data plane: `enroute switch measure` runs it by
//! `BPF_PROG_TEST_RUN` beside the smallest possible responder, in interleaved rounds.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::figure::{Figure, Goal, median};

#[derive(Debug, Deserialize)]
struct Reading {
    name: String,
    ns: Vec<f64>,
}

/// All figures of the data plane.
pub(crate) fn figures(enroute: &Path, rounds: usize) -> anyhow::Result<Vec<Figure>> {
    let output = Command::new(enroute)
        .args(["switch", "measure", "--rounds", &rounds.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", enroute.display()))?;
    if !output.status.success() {
        bail!("enroute switch measure failed; it needs root, and a build with clang");
    }
    let readings: Vec<Reading> = serde_json::from_slice(&output.stdout)?;
    let ns: BTreeMap<&str, f64> = readings
        .iter()
        .map(|reading| (reading.name.as_str(), median(reading.ns.iter().copied())))
        .collect();
    let of = |name: &str| ns.get(name).copied().with_context(|| format!("no reading of {name}"));
    let against = |figure: &str, ours: &str, peer: &str, goal| -> anyhow::Result<Figure> {
        let note = "medians, what measuring costs taken off both".to_owned();
        Ok(Figure::compared(figure, (of(ours)?, of(peer)?), "ns", peer, goal).note(note))
    };
    let added = of("miss")?;
    Ok(vec![
        against("hit-ns-over-floor", "hit 128 B", "smallest hit 128 B", Goal::RatioMax(1.5))?,
        Figure::alone("miss-ns-added", added, "ns", 60.0)
            .note(format!("the smallest responder adds {:.0}", of("smallest miss")?)),
        against("hit-ns-1024B-over-16B", "hit 1024 B", "hit 16 B", Goal::RatioMax(2.0))?,
        against(
            "hit-ns-1M-over-1k",
            "hit 128 B of 1048576 keys in registers",
            "hit 128 B in registers",
            Goal::RatioMax(1.5),
        )?,
        against(
            "hit-ns-registers-over-slots",
            "hit 128 B in registers",
            "hit 128 B",
            Goal::RatioMax(1.2),
        )?,
        Figure::alone("put-ns-added", of("put of a cached key")?, "ns", 120.0),
    ])
}
