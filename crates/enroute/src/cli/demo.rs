//! `enroute demo`: see it work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use clap::Args;

use super::signal::EndSignal;
use crate::demo;

const EXAMPLES: &str = "\
EXAMPLES:
  The paper's scenario, under two minutes, no root and no server needed:
    enroute demo

  A shorter look:
    enroute demo --seconds 20

  The table for another program:
    enroute demo --json > demo.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// End after this many seconds at the latest
    #[arg(long, value_name = "SECONDS", default_value_t = 75)]
    seconds: u64,

    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

#[allow(clippy::print_stdout, reason = "the table is the output")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let end = EndSignal::listen()?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        end.wait(None);
        told.store(true, Relaxed);
    });
    let table = demo::run(Duration::from_secs(arguments.seconds), &stop)?;
    if arguments.json {
        println!("{:#}", table.json());
    } else {
        println!("\n{table}{}", demo::EXPLANATION);
    }
    Ok(())
}
