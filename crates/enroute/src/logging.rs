//! Where log lines go: standard error, in one place, so that standard output stays data.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// The level of detail of the log, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Only what ends the command.
    Error,
    /// Also what went wrong but was survived.
    #[default]
    Warn,
    /// Also what a person following along wants to know.
    Info,
    /// Also one line for each connection or decision.
    Debug,
    /// Everything, for one request at a time.
    Trace,
}

/// Sends the log of this process to standard error. Called once, before any work.
pub(crate) fn start(level: Level) {
    let filter = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let started = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    // A second start happens only inside tests; the first one stays in force.
    drop(started);
}
