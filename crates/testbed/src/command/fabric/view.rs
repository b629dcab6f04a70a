//! `enroute fabric view`: a run as a page.

use std::{iter, path::PathBuf};

use clap::Args;

use super::{super::Stop, run::watched, setting};
use crate::fabric::{memory, page};

const EXAMPLES: &str = "\
EXAMPLES:
  An incast whose receiver moves:
    enroute fabric view --trace incast --cache 960 --migrate 5200:68@500us --output incast.html

  Open the page in the browser:
    enroute fabric view --trace hadoop --share 0.02 --open";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    setting: setting::Arguments,

    /// Page to write: one HTML file without external parts
    #[arg(long, short, default_value = "fabric.html", value_name = "FILE")]
    output: PathBuf,

    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

#[allow(clippy::print_stdout, reason = "where the page is is the output")]
pub(super) fn run(arguments: &Arguments, stop: Stop) -> anyhow::Result<()> {
    let mut experiment = arguments.setting.experiment()?;
    page::prepare(&mut experiment);
    memory::check(iter::once(&experiment), 1)?;
    let outcome = watched(&experiment, stop)?;
    page::write(&experiment, &outcome, &arguments.output)?;
    println!("{}", arguments.output.display());
    if arguments.open {
        page::open(&arguments.output)?;
    }
    Ok(())
}
