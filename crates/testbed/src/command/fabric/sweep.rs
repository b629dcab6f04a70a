//! `enroute fabric sweep`: a grid of experiments.

use std::{num::NonZeroUsize, path::PathBuf, time::Instant};

use anyhow::bail;
use clap::Args;

use super::super::Stop;
use crate::{
    fabric::{experiment::progress_line, sweep::Sweep},
    report::Progress,
};

const EXAMPLES: &str = "\
EXAMPLES:
  All combinations in experiment.toml, on all cores; results go to experiment.results/:
    enroute fabric sweep experiment.toml

  A file; every combination is a run. All lists except schemes and traces have defaults:
    schemes = [\"nocache\", \"gwcache\", \"switchv2p\"]
    traces = [\"hadoop.csv.gz\"]
    topologies = [\"ft8-10k\"]
    caches = [\"1%\", \"50%\", \"1500\"]
    models = [\"paper\", \"published\"]
    seeds = [1, 2, 3]

Ctrl-C ends the sweep; finished runs are kept, and the same command resumes it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Experiment file, TOML
    file: PathBuf,

    /// Directory for results.jsonl, results.csv and costs.jsonl [default: FILE with the extension
    /// .results]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,

    /// Number of simultaneous runs [default: one per core]
    #[arg(long, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
}

#[allow(clippy::print_stdout, reason = "where the results are is the output")]
pub(super) fn run(arguments: &Arguments, stop: Stop) -> anyhow::Result<()> {
    let default = || arguments.file.with_extension("results");
    let directory = arguments.output.clone().unwrap_or_else(default);
    let sweep = Sweep::read(&arguments.file, &directory)?;
    let jobs = match arguments.jobs {
        Some(jobs) => jobs.get(),
        None => std::thread::available_parallelism()?.get(),
    };
    let (began, mut progress) = (Instant::now(), Progress::stderr());
    let ended = sweep.run(jobs, &*stop()?, |finished, todo, share| {
        let elapsed = began.elapsed();
        let line = progress_line(&format!("{finished} of {todo} runs"), share, elapsed);
        progress.show(&[line], elapsed);
    })?;
    let total = sweep.experiments.len();
    println!(
        "{total} runs: {} done before, {} now; results: {}",
        ended.before,
        ended.now,
        directory.join("results.csv").display()
    );
    if ended.left > 0 {
        bail!("stopped with {} runs left; run the same command to resume", ended.left);
    }
    Ok(())
}
