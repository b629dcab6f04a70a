//! `enroute config`: checks a configuration file without serving.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::Document;

const EXAMPLES: &str = "\
EXAMPLES:
  Report the first mistake with file, line and column:
    enroute config check enroute.toml";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check a configuration file and the files it names; opens no socket
    Check {
        /// Configuration file of `enroute cache` or `enroute edge`, TOML
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[allow(clippy::print_stdout, reason = "the verdict is the output")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Action::Check { file } = &arguments.action;
    let document = Document::read(file)?;
    let sites = document.edge.map_or(0, |edge| edge.sites.len());
    let sites = if sites == 0 { String::new() } else { format!(", {sites} edge site(s)") };
    println!("{}: valid; {} listener(s){sites}", file.display(), document.listeners.len());
    Ok(())
}
