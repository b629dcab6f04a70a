//! A line that changes in place while something runs.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::readable;
use crate::workload::Summary;

/// In place, the line changes at most this often: faster cannot be read.
const CHANGE_INTERVAL: Duration = Duration::from_millis(100);

/// Elsewhere, as in a file, a line of its own appears at most this often.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Shows one line of progress. A terminal's line changes in place; anything else gets a line for
/// each second. An output that goes away is no error: the run goes on.
#[derive(Debug)]
pub struct Progress<Output: Write> {
    output: Output,
    /// The terminal's width; `None` where there is no terminal.
    columns: Option<usize>,
    next_at: Duration,
    in_place: bool,
}

impl Progress<io::Stdout> {
    /// Progress on standard output.
    #[must_use]
    pub fn stdout() -> Self {
        let output = io::stdout();
        let columns = output.is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(&output);
            size.map_or(80, |size| usize::from(size.ws_col).max(20))
        });
        Self::new(output, columns)
    }
}

impl<Output: Write> Progress<Output> {
    /// Progress on some output, which is a terminal if it has columns.
    pub fn new(output: Output, columns: Option<usize>) -> Self {
        Self { output, columns, next_at: Duration::ZERO, in_place: false }
    }

    /// Shows a line, unless the last one is too fresh; call it as often as convenient.
    pub fn show(&mut self, line: &str, now: Duration) {
        if now < self.next_at {
            return;
        }
        let _ = match self.columns {
            Some(columns) => {
                self.next_at = now + CHANGE_INTERVAL;
                self.in_place = true;
                // The last column stays free, or some terminals would wrap.
                let fitting: String = line.chars().take(columns - 1).collect();
                write!(self.output, "\r\x1b[2K{fitting}")
            }
            None => {
                self.next_at = now + LINE_INTERVAL;
                writeln!(self.output, "{line}")
            }
        };
        let _ = self.output.flush();
    }

    /// Leaves a last line standing and moves below it.
    pub fn finish(&mut self, line: &str) {
        self.next_at = Duration::ZERO;
        let _ = match self.columns {
            Some(_) => write!(self.output, "\r\x1b[2K{line}\n"),
            None => writeln!(self.output, "{line}"),
        };
        self.in_place = false;
        let _ = self.output.flush();
    }
}

impl<Output: Write> Drop for Progress<Output> {
    fn drop(&mut self) {
        if self.in_place {
            let _ = writeln!(self.output);
        }
    }
}

/// A summary as one line: rate, hit ratio, latency.
#[must_use]
pub fn live_line(name: &str, summary: &Summary) -> String {
    let rate = readable(summary.answered_per_second);
    let hits = summary.hit_ratio.map_or("-".into(), |ratio| format!("{:.1}", ratio * 100.0));
    let milliseconds = |nanoseconds: f64| readable(nanoseconds / 1e6);
    let mean = milliseconds(summary.latency_ns_mean);
    let p99 = milliseconds(summary.latency_ns_p99 as f64);
    let failed = match summary.failed {
        0 => String::new(),
        failed => format!("  {failed} failed"),
    };
    format!("{name}  {rate:>9}/s  hits {hits:>5} %  mean {mean:>7} ms  p99 {p99:>7} ms{failed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn shown(columns: Option<usize>, work: impl FnOnce(&mut Progress<&mut Vec<u8>>)) -> String {
        let mut output = Vec::new();
        work(&mut Progress::new(&mut output, columns));
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_terminal_changes_in_place_and_never_wraps() {
        let text = shown(Some(6), |progress| {
            progress.show("one", Duration::ZERO);
            progress.show("too soon", 99 * MS);
            progress.show("a long line", 100 * MS);
            progress.finish("end");
        });
        assert_eq!(text, "\r\x1b[2Kone\r\x1b[2Ka lon\r\x1b[2Kend\n");
    }

    #[test]
    fn a_file_gets_one_line_a_second() {
        let text = shown(None, |progress| {
            progress.show("one", Duration::ZERO);
            progress.show("too soon", 999 * MS);
            progress.show("two", 1000 * MS);
            progress.finish("end");
        });
        assert_eq!(text, "one\ntwo\nend\n");
    }

    #[test]
    fn an_interrupted_line_is_left_behind() {
        let text = shown(Some(80), |progress| progress.show("one", Duration::ZERO));
        assert!(text.ends_with("one\n"));
    }

    #[test]
    fn a_summary_is_one_line() {
        let summary = Summary {
            answered_per_second: 12_345.6,
            hit_ratio: Some(0.9876),
            latency_ns_mean: 8_081_000.0,
            latency_ns_p99: 164_000_000,
            ..Summary::default()
        };
        let expected = "cached     12,346/s  hits  98.8 %  mean    8.08 ms  p99     164 ms";
        assert_eq!(live_line("cached", &summary), expected);
        assert!(live_line("direct", &Summary::default()).contains("hits     - %"));
    }
}
