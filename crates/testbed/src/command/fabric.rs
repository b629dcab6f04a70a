//! `enroute fabric`: experiments with simulated fabrics. One file for each subcommand.

use clap::{Args, Subcommand};

use super::Stop;

mod generate;
mod rack;
mod run;
mod setting;
mod sweep;
mod view;

const EXAMPLES: &str = "\
EXAMPLES:
  The Hadoop trace of the SwitchV2P paper, with caches for half of all addresses:
    enroute fabric run --scheme switchv2p --topology ft8-10k --trace hadoop.csv.gz --cache 50%

  Generate a workload and save it as a trace:
    enroute fabric generate hadoop --seed 7 --output hadoop-7.csv.gz

  A grid of runs on all cores; the same command resumes it after a stop:
    enroute fabric sweep experiment.toml

  A run as an animated page:
    enroute fabric view --scheme switchv2p --trace incast --output incast.html

  The rack of the NetCache paper, 128 servers behind one caching switch:
    enroute fabric rack --skew 0.99";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one experiment
    Run(run::Arguments),
    /// Run a grid of experiments on all cores, or resume one
    Sweep(sweep::Arguments),
    /// Generate a workload and save it as a trace
    Generate(generate::Arguments),
    /// Run one experiment and write a page that animates it
    View(view::Arguments),
    /// Simulate the rack of the NetCache paper: servers behind one caching switch
    Rack(rack::Arguments),
}

impl Arguments {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// The arguments are invalid, the run failed, or `stop` ended it.
    pub fn run(&self, stop: Stop) -> anyhow::Result<()> {
        match &self.command {
            Command::Run(arguments) => run::run(arguments, stop),
            Command::Sweep(arguments) => sweep::run(arguments, stop),
            Command::Generate(arguments) => generate::run(arguments),
            Command::View(arguments) => view::run(arguments, stop),
            Command::Rack(arguments) => rack::run(arguments, stop),
        }
    }
}
