//! `enroute demo`: demonstrations on one machine.

use std::{sync::atomic::AtomicBool, time::Duration};

use clap::{Args, Subcommand};

use super::Stop;
use crate::demo;

const EXAMPLES: &str = "\
EXAMPLES:
  The paper's scenario; takes under two minutes, needs neither root nor a server:
    enroute demo

  A shorter run:
    enroute demo --seconds 20

  An edge with its keys on a key server: database with 100,000 keys, key server, edge, clients.
  The key server is killed and restarted (needs curl, and a build with --features edge):
    enroute demo edge

  The result table as JSON, for other programs:
    enroute demo --json > demo.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// Time limit in seconds; a shorter run measures fewer reads
    #[arg(long, value_name = "SECONDS", default_value_t = 75)]
    seconds: u64,

    /// Print the result table as JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    which: Option<Which>,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// Run an edge with its keys on a key server that is killed and restarted; takes under two
    /// minutes
    Edge(EdgeArguments),
}

#[derive(Debug, Args)]
struct EdgeArguments {
    /// Number of private keys that are imported into the database
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    keys: usize,
}

impl Arguments {
    /// Runs the demonstration and prints its table.
    ///
    /// # Errors
    /// A process could not be started, or did not behave as expected.
    #[allow(clippy::print_stdout, reason = "the table is the output")]
    pub fn run(&self, stop: Stop) -> anyhow::Result<()> {
        let stop = stop()?;
        if let Some(Which::Edge(edge)) = &self.which {
            return run_edge(edge, self.json, &stop);
        }
        let table = demo::run(Duration::from_secs(self.seconds), &stop)?;
        if self.json {
            println!("{:#}", table.json());
        } else {
            println!("\n{table}{}", demo::EXPLANATION);
        }
        Ok(())
    }
}

/// Error of a command that needs the feature `edge` in a build without it.
pub const EDGE_ABSENT: &str = "this build does not include the TLS edge; build it with \
    cargo build --release -p enroute --features edge (needs cmake, g++, git and libclang; \
    ./deps.sh installs them)";

#[cfg(feature = "edge")]
#[allow(clippy::print_stdout, reason = "the table is the output")]
fn run_edge(arguments: &EdgeArguments, json: bool, stop: &AtomicBool) -> anyhow::Result<()> {
    let table = demo::edge::run(arguments.keys, stop)?;
    if json {
        println!("{:#}", table.json());
    } else {
        println!("\n{table}{}", demo::edge::EXPLANATION);
    }
    Ok(())
}

#[cfg(not(feature = "edge"))]
fn run_edge(_: &EdgeArguments, _: bool, _: &AtomicBool) -> anyhow::Result<()> {
    anyhow::bail!(EDGE_ABSENT)
}
