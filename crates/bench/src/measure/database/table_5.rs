//! The paper's Table 5, and the percentiles of its Figures 6 to 8.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use super::{PAGE, process::example, rescale, settle};
use crate::{
    figure::{Figure, Goal},
    load::Session,
    process::Cores,
    run::Run,
};

const KEYS: u64 = 50_000;

/// Memory of the paper's Table 5 in GB, and the requests a second it reached.
const PAPER: [(f64, f64); 6] = [
    (0.0, 360_478.3),
    (0.1, 439_427.5),
    (0.2, 629_350.8),
    (0.5, 667_707.4),
    (1.0, 669_886.1),
    (2.0, 663_842.2),
];

/// The minimum budget, used for the paper's 0.
const MEMORY_MIN: u64 = 32 << 20;

/// The paper's sweep: 50,000 × 4 KiB, asked for one after the other, for each memory; called in
/// process, as in the paper (section 7.3), and over the wire, as clients do.
pub(in crate::measure) fn table_5(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let bytes = PAPER.map(|(gigabytes, _)| ((gigabytes * 1e9) as u64).max(MEMORY_MIN));
    let said = example(run, "elastic_table_5", &bytes)?;
    let wire = over_the_wire(run, &bytes)?;
    let (mut figures, mut rows) = (Vec::new(), Vec::new());
    for (((gigabytes, paper), line), wire) in PAPER.into_iter().zip(said.lines()).zip(wire) {
        let row = Row::parse(gigabytes, line, wire)?;
        // The paper's 2.8 µs reads from storage are served by the page cache, so a memory too small
        // for all the pages has no ratio to reach.
        let all_fit = gigabytes * 1e9 > 1.1 * (KEYS * PAGE as u64) as f64;
        let goal = Goal::RatioMin(if all_fit { 1.0 } else { 0.0 });
        let peer = "the paper, called in process, one after the other";
        let name = format!("table-5-{gigabytes}GB");
        let measured = (row.lookups_per_second, paper);
        figures.push(Figure::compared(&name, measured, "lookups/s", peer, goal).note(row.note()));
        rows.push(row);
    }
    ensure!(figures.len() == PAPER.len(), "a line for each memory: {said}");
    run.keep("table-5", &rows)?;
    Ok(figures)
}

/// Results with one memory size: in process, and over the wire by one connection.
#[derive(Debug, Serialize)]
struct Row {
    gigabytes: f64,
    lookups_per_second: f64,
    max_ms: f64,
    min_ms: f64,
    average_ms: f64,
    /// Lookups that read from the disk, of `KEYS`.
    read: f64,
    /// Of each 1,000 lookups in turn.
    p95_ms: Vec<f64>,
    wire: Wire,
}

#[derive(Debug, Serialize)]
struct Wire {
    lookups_per_second: f64,
    max_ms: f64,
    min_ms: f64,
    resident_mib: f64,
}

impl Row {
    /// From a line of `elastic_table_5`.
    fn parse(gigabytes: f64, line: &str, wire: Wire) -> anyhow::Result<Self> {
        let numbers: Vec<f64> = line
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("expected numbers, found: {line}"))?;
        let [_, lookups_per_second, max, min, average, read, ref p95 @ ..] = numbers[..] else {
            bail!("expected at least six numbers, found: {line}")
        };
        let ms = |nanos: f64| nanos / 1e6;
        let p95_ms = p95.iter().copied().map(ms).collect();
        let (max_ms, min_ms, average_ms) = (ms(max), ms(min), ms(average));
        Ok(Self { gigabytes, lookups_per_second, max_ms, min_ms, average_ms, read, p95_ms, wire })
    }

    fn note(&self) -> String {
        let wire = &self.wire;
        format!(
            "Tmax {:.3} ms, Tmin {:.5} ms, Tavg {:.5} ms; {} of {KEYS} read from the disk, past the system's memory for \
             files; over the wire, one connection: {:.0}/s, Tmax {:.3} ms, Tmin {:.5} ms, resident {:.0} MiB",
            self.max_ms,
            self.min_ms,
            self.average_ms,
            self.read,
            wire.lookups_per_second,
            wire.max_ms,
            wire.min_ms,
            wire.resident_mib
        )
    }
}

/// Measures, for each memory size, one connection to a database of its own.
fn over_the_wire(run: &Run, sizes: &[u64]) -> anyhow::Result<Vec<Wire>> {
    let least = MEMORY_MIN.to_string();
    let database = run.servers.database(&["--workers", "1", "--memory", &least], Cores::Any)?;
    let mut session = Session::connect(database.server.address)?;
    session.set_all(KEYS, PAGE)?;
    let mut measured = Vec::new();
    for &bytes in sizes {
        rescale(&mut session, bytes)?;
        // The first pass fills memory, the second is measured.
        session.get_all(KEYS, PAGE)?;
        settle(&database.server)?;
        let began = Instant::now();
        let taken = session.round_trips(KEYS, PAGE, |index| index)?;
        let lookups_per_second = KEYS as f64 / began.elapsed().as_secs_f64();
        let ms = |nanos: u64| nanos as f64 / 1e6;
        measured.push(Wire {
            lookups_per_second,
            max_ms: ms(taken[taken.len() - 1]),
            min_ms: ms(taken[0]),
            resident_mib: database.server.resident_bytes()? / f64::from(1 << 20),
        });
        run.keep("table-5-wire", &measured)?;
    }
    Ok(measured)
}
