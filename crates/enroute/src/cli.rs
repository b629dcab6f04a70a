//! The command line: arguments, their meaning, and exit codes.
//!
//! A subcommand is one file here with `Arguments` and `run(&Arguments) -> anyhow::Result<()>`. To
//! add one, add its file, its variant in [`Command`] and its line in `Command::run`.
//!
//! Exit codes: 0 done, 1 failed (one line on standard error says why), 2 the command line was not
//! understood.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testbed::command;

use crate::logging::{self, Level};

mod admin;
mod cache;
mod config;
mod db;
mod edge;
mod intercept;
mod keyserver;
mod reload;
mod signal;
mod state;
mod switch;

use signal::EndSignal;

const EXAMPLES: &str = "\
EXAMPLES:
  A cache in front of a remote MongoDB:
    enroute cache --listen mongodb://127.0.0.1:27018 --origin mongodb://db.example:27017

  Emulate a round-trip time of 164 ms to a database on this machine:
    enroute link --listen 127.0.0.1:7000 --to 127.0.0.1:6379 --rtt 164ms

  Options and examples of a subcommand:
    enroute link --help";

/// Answers key-value reads on the path between an application and its data.
#[derive(Debug, Parser)]
#[command(name = "enroute", version, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    /// Least severe level that is logged, on standard error
    #[arg(long, global = true, value_enum, default_value_t, value_name = "LEVEL")]
    log: Level,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Cache a remote MongoDB or Redis close to its clients (VNF-Cache)
    Cache(cache::Arguments),
    /// Check a configuration file without starting a service
    Config(config::Arguments),
    /// Run the elastic database: all data on disk, a resizable part of it in memory
    Db(db::Arguments),
    /// Run the VNF-Cache experiment on this machine; takes less than two minutes
    Demo(command::demo::Arguments),
    /// Simulate data-center fabrics whose switches cache addresses (SwitchV2P)
    Fabric(command::fabric::Arguments),
    /// Terminate TLS close to clients with keys on a key server, and cache HTTP content
    Edge(edge::Arguments),
    /// Divert connections to the cache by netfilter, without changing client or database
    Intercept(intercept::Arguments),
    /// Serve private-key operations to edges that do not hold the keys
    Keyserver(keyserver::Arguments),
    /// Emulate a network path: delay, jitter, loss, bandwidth and outages
    Link(command::link::Arguments),
    /// Keep state on the host that uses it most, over a Redis or Valkey Cluster (AnnaBellaDB)
    State(state::Arguments),
    /// Answer reads of hot keys in the kernel's data plane, by XDP (NetCache)
    Switch(switch::Arguments),
}

impl Command {
    fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Cache(arguments) => cache::run(arguments),
            Self::Config(arguments) => config::run(arguments),
            Self::Db(arguments) => db::run(arguments),
            Self::Demo(arguments) => arguments.run(EndSignal::flag),
            Self::Fabric(arguments) => arguments.run(EndSignal::flag),
            Self::Edge(arguments) => edge::run(arguments),
            Self::Intercept(arguments) => intercept::run(arguments),
            Self::Keyserver(arguments) => keyserver::run(arguments),
            Self::Link(arguments) => {
                let end = EndSignal::listen()?;
                arguments.run(|limit| end.wait(limit))
            }
            Self::State(arguments) => state::run(arguments),
            Self::Switch(arguments) => switch::run(arguments),
        }
    }
}

/// Parses the command line, runs the command and returns the exit code.
pub fn run() -> ExitCode {
    end_when_output_is_closed();
    let arguments = Arguments::parse();
    logging::start(arguments.log);
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: what failed, then each cause, then (in the last cause) what to do next.
            eprintln!("enroute: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Ends silently when the reader of standard output is closed, as in `enroute … | head`.
///
/// `println!` panics then. The default action of SIGPIPE is no alternative: it would end a server
/// when a client disconnects.
fn end_when_output_is_closed() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or_default();
        if said.starts_with("failed printing to stdout: Broken pipe") {
            std::process::exit(0);
        }
        report(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_argument_is_declared_consistently() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("EXAMPLES"), "{} has no EXAMPLES", command.get_name());
        }
    }
}
