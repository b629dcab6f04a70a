//! Output of the demonstration, while it runs and at its end.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use super::{Measured, ROUND_TRIP, ROWS, ideal};
use crate::{
    report::{Table, live_line},
    workload::Recorder,
};

/// Legend of the last two columns of the table.
pub const EXPLANATION: &str = "
ideal: every unavoidable miss one round trip (the first read of each key, then a share
1 - capacity/keys), every hit the median hit. paper: VNF-Cache Table 2, Ohio, 30,000 reads;
fewer reads weigh the first reads of each key more, so compare with the ideal.";

pub(super) fn introduce(run_max: Duration) {
    eprintln!(
        "A client reads keys 1..100 in random order from a database {} ms away, through caches\n\
         that hold 0, 10, 30, 70 and 100 of them. Ends within {} seconds.\n",
        ROUND_TRIP.as_millis(),
        run_max.as_secs() + 5
    );
}

/// The rows while they run.
pub(super) fn live(recorders: &[Mutex<Recorder>]) -> Vec<String> {
    let rows = ROWS.iter().zip(recorders);
    rows.map(|(row, recorder)| {
        let summary = recorder.lock().summary();
        live_line(&format!("capacity {:>3}", row.capacity), &summary)
    })
    .collect()
}

/// The rows at the end.
pub(super) fn table(measured: &[Measured]) -> Table<9> {
    let mut table = Table::new([
        "capacity",
        "reads",
        "mean_ms",
        "p50_ms",
        "p99_ms",
        "reads_per_s",
        "hit_ratio",
        "ideal_ms",
        "paper_ms",
    ]);
    for (row, Measured { summary, distinct }) in ROWS.iter().zip(measured) {
        table.row([
            json!(row.capacity),
            json!(summary.reads),
            json!(summary.mean_ms),
            json!(summary.p50_ms),
            json!(summary.p99_ms),
            json!(summary.reads_per_s),
            json!(summary.hit_ratio),
            json!(ideal::mean_ms(row.capacity, *distinct, summary)),
            json!(row.paper_mean_ms),
        ]);
    }
    table
}
