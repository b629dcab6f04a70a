//! `enroute demo`: see it work.

use std::{sync::atomic::AtomicBool, time::Duration};

use clap::{Args, Subcommand};

use super::signal::EndSignal;
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
pub(super) struct Arguments {
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

#[allow(clippy::print_stdout, reason = "the table is the output")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    if let Some(Which::Edge(edge)) = &arguments.which {
        return run_edge(edge, arguments.json, &stop);
    }
    let table = demo::run(Duration::from_secs(arguments.seconds), &stop)?;
    if arguments.json {
        println!("{:#}", table.json());
    } else {
        println!("\n{table}{}", demo::EXPLANATION);
    }
    Ok(())
}

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
    super::edge::absent()
}
