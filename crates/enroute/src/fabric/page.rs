//! A run as one HTML page that plays it; the page needs nothing else.

use std::{fs, path::Path, process::Command};

use anyhow::Context;

use super::experiment::{Experiment, Outcome};

/// The page, with a place for the run.
const PAGE: &str = include_str!("page.html");

/// Pictures of one run.
const FRAMES: u64 = 200;

/// Makes `experiment` record what the page shows.
pub fn prepare(experiment: &mut Experiment) {
    let starts = experiment.workload.flows.iter().map(|flow| flow.start_ns);
    experiment.config.sample_interval_ns = (starts.max().unwrap_or(0) / FRAMES).max(1);
}

/// Writes the page.
///
/// # Errors
///
/// What the file system says.
pub fn write(experiment: &Experiment, outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    let _ = outcome;
    let data = serde_json::json!({ "inputs": experiment.inputs });
    // `</` would end the script.
    let data = data.to_string().replace("</", "<\\/");
    fs::write(path, PAGE.replace("/*RUN*/null", &data))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Shows the page in the user's browser.
///
/// # Errors
///
/// There is no `xdg-open` here, or it failed.
pub fn open(path: &Path) -> anyhow::Result<()> {
    let status = Command::new("xdg-open").arg(path).status();
    let status = status.context("cannot start xdg-open; open the page by hand")?;
    anyhow::ensure!(status.success(), "xdg-open failed; open the page by hand");
    Ok(())
}
