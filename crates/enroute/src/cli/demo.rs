//! `enroute demo`: see it work.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use clap::Args;

use super::signal::EndSignal;

const EXAMPLES: &str = "\
EXAMPLES:
  The paper's scenario, under two minutes, no root and no server needed:
    enroute demo

  A shorter look:
    enroute demo --seconds 20";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// End after this many seconds at the latest [default: 75]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let end = EndSignal::listen()?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        end.wait(None);
        told.store(true, Relaxed);
    });
    crate::demo::run(arguments.seconds, &stop)
}
