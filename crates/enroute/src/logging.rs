//! Where log lines go: standard error, in one place, so that standard output stays data.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

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

/// A log line that is written once per interval, however often there is a reason for it.
#[derive(Debug)]
pub(crate) struct Seldom {
    pause: Duration,
    at: Option<Instant>,
    since: u64,
}

impl Seldom {
    /// A line that is written at most once in `pause`.
    pub(crate) const fn new(pause: Duration) -> Self {
        Self { pause, at: None, since: 0 }
    }

    /// Counts a reason; how many there were since the last line, if another is due.
    pub(crate) fn note(&mut self, now: Instant) -> Option<u64> {
        self.since += 1;
        let due = self.at.is_none_or(|at| now.saturating_duration_since(at) >= self.pause);
        due.then(|| {
            self.at = Some(now);
            std::mem::take(&mut self.since)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_were_left_out() {
        let start = Instant::now();
        let mut seldom = Seldom::new(Duration::from_secs(10));
        let noted =
            [0, 1, 9, 10, 11, 30].map(|second| seldom.note(start + Duration::from_secs(second)));
        assert_eq!(noted, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
