//! `enroute demo`: see it work.

use std::{sync::atomic::AtomicBool, time::Duration};

use clap::{Args, Subcommand};

use super::signal::EndSignal;
use crate::demo;

const EXAMPLES: &str = "\
EXAMPLES:
  The paper's scenario, under two minutes, no root and no server needed:
    enroute demo

  A shorter look:
    enroute demo --seconds 20

  An edge whose keys are at a key server: database with 100,000 keys, key server, edge, browsers;
  the key server is killed and returns (needs curl, and a build with --features edge):
    enroute demo edge

  The table for another program:
    enroute demo --json > demo.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// End after this many seconds at the latest
    #[arg(long, value_name = "SECONDS", default_value_t = 75)]
    seconds: u64,

    /// Print the table as JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    which: Option<Which>,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// An edge whose keys are at a key server, which is killed and returns; under two minutes
    Edge(EdgeArguments),
}

#[derive(Debug, Args)]
struct EdgeArguments {
    /// Private keys in the database
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
