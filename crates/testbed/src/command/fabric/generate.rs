//! `enroute fabric generate`: a workload as a trace file.

use std::{path::Path, path::PathBuf};

use clap::Args;

use crate::fabric::{setting::Source, trace};

const EXAMPLES: &str = "\
EXAMPLES:
  A trace with the paper's parameters and another seed:
    enroute fabric generate hadoop --seed 7 --output hadoop-7.csv.gz

  Calls between 410,865 containers, for 1/100 of the paper's time:
    enroute fabric generate rpc --topology ft16-400k --share 0.01 --output rpc.csv

  Run it:
    enroute fabric run --topology ft16-400k --trace rpc.csv";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Workload: hadoop, websearch, rpc, microbursts, video or incast
    workload: String,

    /// Topology of the sending VMs: ft8-10k, ft16-400k or a TOML file
    #[arg(long, default_value = "ft8-10k", value_name = "NAME")]
    topology: String,

    /// Length of the workload, as a factor of the paper's
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    share: f64,

    /// Seed of the random numbers; the same seed gives the same trace
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,

    /// Trace file; compressed if the name ends in .gz
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

#[allow(clippy::print_stdout, reason = "the name of the file is the output")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (_, topology) = Source::topology(&arguments.topology, Path::new(""))?;
    let workload = trace::draw(&arguments.workload, &topology, arguments.share, arguments.seed)?;
    trace::write(&workload, &arguments.output)?;
    let rows = workload.flows.len();
    println!("{rows} rows of {} in {}", workload.protocol.name(), arguments.output.display());
    Ok(())
}
