//! The paper's Table 5.

use std::time::Instant;

use anyhow::{Context, bail, ensure};

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

/// The least there is stands for the paper's 0.
const MEMORY_MIN: u64 = 32 << 20;

/// The paper's sweep: 50,000 × 4 KiB, asked for one after the other, for each memory; called in
/// process, as in the paper (section 7.3), and over the wire, as clients do.
pub(in crate::measure) fn table_5(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let bytes = PAPER.map(|(gigabytes, _)| ((gigabytes * 1e9) as u64).max(MEMORY_MIN));
    let said = example(run, "elastic_table_5", &bytes)?;
    let wire = over_the_wire(run, &bytes)?;
    let mut figures = Vec::new();
    for (((gigabytes, paper), line), wire) in PAPER.into_iter().zip(said.lines()).zip(wire) {
        let numbers: Vec<f64> =
            line.split(' ').map(str::parse).collect::<Result<_, _>>().context(said.clone())?;
        let [_, rate, max, min, average, read] = numbers[..] else { bail!("six numbers: {line}") };
        // The paper's 2.8 µs reads from storage are served by the page cache. And a memory too
        // small for all the pages of a cyclic access pattern keeps none of them until its next use.
        let all_fit = gigabytes * 1e9 > 1.1 * (KEYS * PAGE as u64) as f64;
        let goal = Goal::RatioMin(if all_fit { 1.0 } else { 0.0 });
        let peer = "the paper, called in process, one after the other";
        let name = format!("table-5-{gigabytes}GB");
        let figure = Figure::compared(&name, (rate, paper), "lookups/s", peer, goal);
        figures.push(figure.note(format!(
            "Tmax {:.3} ms, Tmin {:.5} ms, Tavg {:.5} ms; {read} of {KEYS} read from the disk, past the system's memory for \
             files; {wire}",
            max / 1e6,
            min / 1e6,
            average / 1e6
        )));
    }
    ensure!(figures.len() == PAPER.len(), "a line for each memory: {said}");
    run.keep("table-5", &figures)?;
    Ok(figures)
}

/// Measures, for each memory size, one connection to a database of its own.
fn over_the_wire(run: &Run, sizes: &[u64]) -> anyhow::Result<Vec<String>> {
    let least = MEMORY_MIN.to_string();
    let database = run.servers.database(&["--workers", "1", "--memory", &least], Cores::Any)?;
    let mut session = Session::connect(database.server.address)?;
    session.set_all(KEYS, PAGE)?;
    let mut notes = Vec::new();
    for &bytes in sizes {
        rescale(&mut session, bytes)?;
        // The first pass fills memory, the second is measured.
        session.get_all(KEYS, PAGE)?;
        settle(&database.server)?;
        let began = Instant::now();
        let taken = session.round_trips(KEYS, PAGE, |index| index)?;
        let rate = KEYS as f64 / began.elapsed().as_secs_f64();
        let ms = |nanos: u64| nanos as f64 / 1e6;
        notes.push(format!(
            "over the wire, one connection: {rate:.0}/s, Tmax {:.3} ms, Tmin {:.5} ms, resident {:.0} MiB",
            ms(taken[taken.len() - 1]),
            ms(taken[0]),
            database.server.resident_bytes()? / f64::from(1 << 20)
        ));
    }
    Ok(notes)
}
