//! The command line: what may be typed, what it means, and how the program ends.
//!
//! A subcommand is one file here with `Arguments` (what was typed) and
//! `run(&Arguments) -> anyhow::Result<()>`. To add one (`cache`, `config`, `demo`, `intercept`,
//! `bench`), add its file, its variant in [`Command`] and its line in `Command::run`.
//!
//! Exit codes: 0 done, 1 failed (one line on standard error says why), 2 the command line was not
//! understood.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::logging::{self, Level};

mod cache;
mod config;
mod db;
mod demo;
mod edge;
mod fabric;
mod intercept;
mod keyserver;
mod link;
mod reload;
mod signal;
mod state;
mod switch;

const EXAMPLES: &str = "\
EXAMPLES:
  Before a MongoDB far away:
    enroute cache --listen mongodb://127.0.0.1:27018 --origin mongodb://db.example:27017

  A database 164 ms away, on this machine:
    enroute link --listen 127.0.0.1:7000 --to 127.0.0.1:6379 --rtt 164ms

  What a subcommand can do:
    enroute link --help";

/// Answers key-value reads on the way, between an application and its database.
#[derive(Debug, Parser)]
#[command(name = "enroute", version, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    /// Level of detail of the log, on standard error
    #[arg(long, global = true, value_enum, default_value_t, value_name = "LEVEL")]
    log: Level,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer a database's clients nearby
    Cache(cache::Arguments),
    /// Check a configuration file
    Config(config::Arguments),
    /// Serve the elastic database: more data than memory, and memory that grows and shrinks
    Db(db::Arguments),
    /// See it work: the paper's experiment on this machine, under two minutes
    Demo(demo::Arguments),
    /// Simulate data-centre fabrics that resolve virtual addresses
    Fabric(fabric::Arguments),
    /// End TLS near the client with keys that never leave the key server, and cache the content
    Edge(edge::Arguments),
    /// Divert connections into the cache, with nothing changed at either end
    Intercept(intercept::Arguments),
    /// Keep private keys that edges use and never hold
    Keyserver(keyserver::Arguments),
    /// Emulate a network path: delay, jitter, loss, bandwidth and cuts
    Link(link::Arguments),
    /// Keep each piece of state on the host that uses it most, over a Redis Cluster (AnnaBellaDB)
    State(state::Arguments),
    /// Answer hot items in the kernel, before their server sees the packet (NetCache)
    Switch(switch::Arguments),
}

impl Command {
    fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Cache(arguments) => cache::run(arguments),
            Self::Config(arguments) => config::run(arguments),
            Self::Db(arguments) => db::run(arguments),
            Self::Demo(arguments) => demo::run(arguments),
            Self::Fabric(arguments) => fabric::run(arguments),
            Self::Edge(arguments) => edge::run(arguments),
            Self::Intercept(arguments) => intercept::run(arguments),
            Self::Keyserver(arguments) => keyserver::run(arguments),
            Self::Link(arguments) => link::run(arguments),
            Self::State(arguments) => state::run(arguments),
            Self::Switch(arguments) => switch::run(arguments),
        }
    }
}

/// Reads the command line, runs what it asks for and says how it went.
pub fn run() -> ExitCode {
    end_when_nobody_reads_on();
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

/// Ends without a word when the reader of standard output has gone, as in `enroute … | head`.
///
/// `println!` panics then. The signal that ends other programs is no way here: it would end a server
/// whose client is gone.
fn end_when_nobody_reads_on() {
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
