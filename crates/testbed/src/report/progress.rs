//! Lines that change in place while something runs.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::readable;
use crate::workload::Summary;

/// Minimum interval of updates in place.
const CHANGE_INTERVAL: Duration = Duration::from_millis(250);

/// Minimum interval of blocks where the output is not a terminal.
const BLOCK_INTERVAL: Duration = Duration::from_secs(5);

/// Shows a few lines of progress. On a terminal they change in place; any other output gets a block
/// of them at intervals. A closed output is no error: the run continues.
#[derive(Debug)]
pub struct Progress<Output: Write> {
    output: Output,
    /// The terminal's width; `None` where there is no terminal.
    columns: Option<usize>,
    next_at: Duration,
    /// Number of lines shown on the terminal.
    shown: usize,
}

impl Progress<io::Stderr> {
    /// Progress on standard error; standard output carries data only.
    #[must_use]
    pub fn stderr() -> Self {
        let output = io::stderr();
        let columns = output.is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(&output);
            size.map_or(80, |size| usize::from(size.ws_col).max(20))
        });
        Self::new(output, columns)
    }
}

impl<Output: Write> Progress<Output> {
    /// Progress on the given output, which is a terminal if `columns` is set.
    pub fn new(output: Output, columns: Option<usize>) -> Self {
        Self { output, columns, next_at: Duration::ZERO, shown: 0 }
    }

    /// Shows lines, unless the last update is too recent; can be called at any rate.
    pub fn show(&mut self, lines: &[String], now: Duration) {
        if now < self.next_at {
            return;
        }
        let mut text = String::new();
        if let Some(columns) = self.columns {
            self.next_at = now + CHANGE_INTERVAL;
            if self.shown > 0 {
                // Move to the first line and erase everything below, including the user's ^C.
                text += &format!("\x1b[{}F\x1b[J", self.shown);
            }
            for line in lines {
                // The last column stays free, or some terminals would wrap.
                text.extend(line.chars().take(columns - 1).chain(['\n']));
            }
            self.shown = lines.len();
        } else {
            self.next_at = now + BLOCK_INTERVAL;
            for line in lines {
                text.extend([line, "\n"]);
            }
            text.push('\n');
        }
        let _ = self.output.write_all(text.as_bytes());
    }
}

/// A summary as one line: reads, rate, hit ratio, mean latency.
#[must_use]
pub fn live_line(name: &str, summary: &Summary) -> String {
    let reads = readable(&summary.reads.into());
    let rate = readable(&summary.reads_per_s.into());
    let hits = summary.hit_ratio * 100.0;
    let mean = readable(&summary.mean_ms.into());
    format!("{name}  {reads:>6} reads  {rate:>6}/s  {hits:>5.1} % hits  mean {mean:>5} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn shown(columns: Option<usize>, blocks: &[(&[&str], Duration)]) -> String {
        let mut output = Vec::new();
        let mut progress = Progress::new(&mut output, columns);
        for (lines, now) in blocks {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            progress.show(&lines, *now);
        }
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_terminal_changes_in_place_and_never_wraps() {
        let blocks: [(&[&str], _); 3] = [
            (&["one", "two"], Duration::ZERO),
            (&["too soon"], 249 * MS),
            (&["a long line", "b"], 250 * MS),
        ];
        assert_eq!(shown(Some(6), &blocks), "one\ntwo\n\x1b[2F\x1b[Ja lon\nb\n");
    }

    #[test]
    fn a_file_gets_a_block_now_and_then() {
        let blocks: [(&[&str], _); 3] = [
            (&["one", "two"], Duration::ZERO),
            (&["too soon"], 4999 * MS),
            (&["three"], 5000 * MS),
        ];
        assert_eq!(shown(None, &blocks), "one\ntwo\n\nthree\n\n");
    }

    #[test]
    fn a_summary_is_one_line() {
        let summary = Summary {
            reads: 30_000,
            reads_per_s: 1234.5,
            hit_ratio: 0.9876,
            mean_ms: 8.081,
            ..Summary::default()
        };
        let expected = "near  30,000 reads   1,234/s   98.8 % hits  mean  8.08 ms";
        assert_eq!(live_line("near", &summary), expected);
    }
}
