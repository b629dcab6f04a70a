//! What the demonstration shows while it runs and when it is over.
#![allow(clippy::print_stdout, reason = "the demonstration is its output")]

use std::{
    io::{IsTerminal, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Path, Row, measure::Measured, measure::Progress};

/// Time between two looks at the rows.
pub(super) const REFRESH: Duration = Duration::from_millis(250);
/// The same where lines cannot be overwritten.
const REFRESH_PLAIN: Duration = Duration::from_secs(5);

pub(super) fn introduce(round_trip: Duration, run_max: Duration) {
    println!(
        "A client reads keys 1..100 in random order from a database {} ms away, through caches\n\
         that hold 0, 10, 30, 70 and 100 of them. Ends within {} seconds.\n",
        round_trip.as_millis(),
        run_max.as_secs() + 5
    );
}

/// The rows while they run.
pub(super) struct Screen {
    in_place: bool,
    lines: usize,
    last: Option<Instant>,
    before: Vec<u64>,
}

impl Screen {
    pub(super) fn new() -> Self {
        let in_place = std::io::stdout().is_terminal();
        Self { in_place, lines: 0, last: None, before: Vec::new() }
    }

    pub(super) fn update(&mut self, rows: &[Row], paths: &[Path], progress: &[Arc<Progress>]) {
        let period = self.last.map_or(Duration::ZERO, |last| last.elapsed());
        if self.last.is_some() && !self.in_place && period < REFRESH_PLAIN {
            return;
        }
        let mut text = String::new();
        if self.in_place && self.lines > 0 {
            text.push_str(&format!("\x1b[{}A", self.lines));
        }
        self.before.resize(rows.len(), 0);
        for (((row, path), progress), before) in
            rows.iter().zip(paths).zip(progress).zip(&mut self.before)
        {
            let reads = progress.reads();
            let rate = (reads - *before) as f64 / period.as_secs_f64().max(0.001);
            *before = reads;
            let ratio = path.hits() as f64 / reads.max(1) as f64;
            let clear = if self.in_place { "\x1b[2K" } else { "" };
            text.push_str(&format!(
                "{clear}capacity {:>3}   {reads:>6} reads   {rate:>8.0}/s   {:>5.1} % hits   mean {:>7.2} ms\n",
                row.capacity,
                ratio * 100.0,
                progress.mean_ms(),
            ));
        }
        if !self.in_place {
            text.push('\n');
        }
        self.lines = rows.len();
        self.last = Some(Instant::now());
        print!("{text}");
        let _ = std::io::stdout().flush();
    }
}

pub(super) fn table(rows: &[Row], measured: &[Measured]) {
    println!(
        "\n{:>8}  {:>6}  {:>9}  {:>9}  {:>9}  {:>9}  {:>6}  {:>9}  {:>9}",
        "capacity",
        "reads",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "reads/s",
        "hits",
        "ideal ms",
        "paper ms"
    );
    for (row, measured) in rows.iter().zip(measured) {
        println!(
            "{:>8}  {:>6}  {:>9.3}  {:>9.3}  {:>9.3}  {:>9.1}  {:>5.1}%  {:>9.3}  {:>9.2}",
            row.capacity,
            measured.reads(),
            measured.mean_ms(),
            measured.quantile_ms(0.5),
            measured.quantile_ms(0.99),
            measured.reads_per_s(),
            measured.hit_ratio() * 100.0,
            measured.ideal_mean_ms(row.capacity),
            row.paper_mean_ms,
        );
    }
    println!(
        "\nideal: every unavoidable miss one round trip (the first read of each key, then a share\n\
         1 - capacity/keys), every hit the median hit. paper: VNF-Cache Table 2, Ohio, 30,000 reads;\n\
         fewer reads weigh the first reads of each key more, so compare with the ideal."
    );
}
