//! Destination of log lines: standard error, so that standard output has only data.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// Log levels, from the most severe to the least severe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Failures: the process, or a part of it, cannot continue
    Error,
    /// Also problems that the process works around, with the remedy
    #[default]
    Warn,
    /// Also changes of state: started, reloaded, moved
    Info,
    /// Also one line per connection or decision
    Debug,
    /// Also each step of a request
    Trace,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Time, level, what happened, and fields as name=value
    #[default]
    Text,
    /// One JSON object for each line, with the fields beside `timestamp`, `level` and `message`
    Json,
}

/// Sends the log of this process to standard error. Called once, before any work.
pub(crate) fn start(level: Level, format: Format) {
    let filter = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let started = match format {
        Format::Text => log.try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
    // A second start happens only inside tests; the first one stays in force.
    drop(started);
}
