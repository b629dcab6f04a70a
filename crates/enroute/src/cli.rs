//! The command line: arguments, their meaning, and exit codes.
//!
//! A subcommand is one file here with `Arguments` and `run(&Arguments) -> anyhow::Result<()>`. To
//! add one, add its file, its variant in [`Command`] and its line in `Command::run`.
//!
//! Exit codes: 0 done, 1 failed (one line on standard error says why), 2 the command line was not
//! understood.

use std::{net::SocketAddr, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, builder::RangedU64ValueParser};
use testbed::command;

use crate::{
    THREADS_MAX,
    logging::{self, Format, Level},
};

mod admin;
mod cache;
mod config;
mod db;
mod edge;
mod explain;
mod intercept;
mod keyserver;
mod reload;
mod state;
mod switch;
mod tls;
mod top;

use platform::signal::{self, EndSignal};

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
// The global options come after those of a subcommand.
#[command(next_display_order = 1000)]
struct Arguments {
    /// Least severe level that is logged, on standard error
    #[arg(long, global = true, value_enum, default_value_t, value_name = "LEVEL")]
    log: Level,

    /// Form of the log lines. Start-up addresses and the error that ends the process stay text
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: Format,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Cache a remote MongoDB, Redis, memcached or DynamoDB close to its clients (VNF-Cache)
    Cache(cache::Arguments),
    /// Check a configuration file without starting a service
    Config(config::Arguments),
    /// Run the elastic database: all data on disk, a resizable part of it in memory
    Db(db::Arguments),
    /// Run the VNF-Cache experiment on this machine; takes less than two minutes
    Demo(command::demo::Arguments),
    /// Explain why a read of a running cache is a hit or not; changes nothing
    Explain(explain::Arguments),
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
    /// Show what running services do now: hit ratio, latency, hot keys (live, or once as text)
    Top(top::Arguments),
}

impl Command {
    fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Cache(arguments) => cache::run(arguments),
            Self::Config(arguments) => config::run(arguments),
            Self::Db(arguments) => db::run(arguments),
            Self::Demo(arguments) => arguments.run(EndSignal::flag),
            Self::Explain(arguments) => explain::run(arguments),
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
            Self::Top(arguments) => top::run(arguments),
        }
    }
}

/// Parser of a number of threads.
fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=THREADS_MAX as u64)
}

/// Parser of an address to listen on or to connect to.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, for example 127.0.0.1:6379 or [::1]:6379".to_owned()
    })
}

/// Parses the command line, runs the command and returns the exit code.
pub fn run() -> ExitCode {
    end_when_output_is_closed();
    let arguments =
        Arguments::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    logging::start(arguments.log, arguments.log_format);
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: what failed, then each cause, then (in the last cause) what to do next.
            eprintln!("enroute: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The command line. A subcommand without examples of its own shows those of its parent that run
/// it.
#[must_use]
pub fn command() -> clap::Command {
    with_examples(Arguments::command(), "enroute")
}

fn with_examples(command: clap::Command, path: &str) -> clap::Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    command.mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name());
        let own = match subcommand.get_after_help() {
            None => examples_of(&examples, &path),
            Some(_) => None,
        };
        let subcommand = match own {
            Some(text) => subcommand.after_help(text),
            None => subcommand,
        };
        with_examples(subcommand, &path)
    })
}

/// Those of the examples that run the command `path`: each is a paragraph of indented lines.
fn examples_of(examples: &str, path: &str) -> Option<String> {
    let runs = |line: &str| {
        line.split_once(path)
            .is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with([' ', '\n']))
    };
    let paragraphs = examples.trim_start_matches("EXAMPLES:\n").split("\n\n");
    let own: Vec<&str> = paragraphs
        .filter(|paragraph| paragraph.starts_with("  ") && paragraph.lines().any(runs))
        .collect();
    (!own.is_empty()).then(|| format!("EXAMPLES:\n{}", own.join("\n\n")))
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

    #[test]
    fn every_argument_is_declared_consistently() {
        Arguments::command().debug_assert();
    }

    /// Calls `each` for every visible command below `command`, with its path.
    fn walk(command: &clap::Command, path: &str, each: &mut impl FnMut(&str, &str)) {
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name());
            let help = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            each(&path, &help);
            walk(subcommand, &path, each);
        }
    }

    #[test]
    fn every_subcommand_shows_examples_that_run_it() {
        let mut without = Vec::new();
        walk(&command(), "enroute", &mut |path, help| {
            if !help.starts_with("EXAMPLES:\n") || !help.contains(path) {
                without.push(path.to_owned());
            }
        });
        assert!(without.is_empty(), "no example in --help: {without:?}");
    }

    #[test]
    fn every_example_is_understood() {
        let mut failed = Vec::new();
        walk(&command(), "enroute", &mut |_, help| {
            for line in help.replace("\\\n", " ").lines() {
                let Some(line) = line.strip_prefix("    enroute ") else { continue };
                let line = line.split([';', '>', '#', '&', '|']).next().unwrap_or_default();
                let words = line.split_whitespace().map(|word| match word.trim_matches('\'') {
                    "ID" => "3f5c8a1d00c2b1c7a8f5d1e2934b6a7081726354453627181920a1b2c3d4e5f6",
                    word => word,
                });
                let parsed = command().try_get_matches_from(["enroute"].into_iter().chain(words));
                if let Err(error) = parsed
                    && error.use_stderr()
                {
                    failed.push(format!("{line}: {error}"));
                }
            }
        });
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    fn a_wrong_option_says_what_is_expected() {
        for (line, expected) in [
            ("enroute db --listen foo", "expected an IP address and a port, for example"),
            ("enroute keyserver serve --listen foo", "expected an IP address and a port"),
            ("enroute state agent --listen localhost", "expected an IP address and a port"),
            ("enroute db --workers 100000", "100000 is not in 1..=1024"),
            ("enroute keyserver serve --workers 100000", "100000 is not in 1..=1024"),
            ("enroute keyserver serve --slow-workers 0", "0 is not in 1..=1024"),
            ("enroute state placer --pin=", "a value is required for '--pin <SLOT|KEY>'"),
        ] {
            let error = command().try_get_matches_from(line.split(' ')).expect_err(line);
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }
}
