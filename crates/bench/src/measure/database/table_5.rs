//! The paper's Table 5.

use std::time::Instant;

use super::{PAGE, rescale, settle};
use crate::{
    figure::{Figure, Goal},
    load::Session,
    process::Cores,
    run::Run,
};

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

/// The paper's sweep: 50,000 × 4 KiB, asked for one after the other, for each memory.
pub(in crate::measure) fn table_5(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let keys = 50_000;
    let least = MEMORY_MIN.to_string();
    let database = run.servers.database(&["--workers", "1", "--memory", &least], Cores::Any)?;
    let mut session = Session::connect(database.server.address)?;
    session.set_all(keys, PAGE)?;
    let mut figures = Vec::new();
    for (gigabytes, paper) in PAPER {
        let bytes = ((gigabytes * 1e9) as u64).max(MEMORY_MIN);
        rescale(&mut session, bytes)?;
        // The first pass fills memory, the second is measured.
        session.get_all(keys, PAGE)?;
        settle(&database.server)?;
        let began = Instant::now();
        let taken = session.round_trips(keys, PAGE, |index| index)?;
        let rate = keys as f64 / began.elapsed().as_secs_f64();
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let average = taken.iter().map(|&nanos| ms(nanos)).sum::<f64>() / taken.len() as f64;
        let peer = "the paper, called in process, one after the other";
        let figure = Figure::compared(
            &format!("table-5-{gigabytes}GB"),
            (rate, paper),
            "lookups/s, one connection",
            peer,
            Goal::RatioMin(0.0),
        );
        figures.push(figure.note(format!(
            "Tmax {:.3} ms, Tmin {:.5} ms, Tavg {average:.5} ms; ours over the wire, so no goal; resident {:.0} MiB",
            ms(taken[taken.len() - 1]),
            ms(taken[0]),
            database.server.resident_bytes()? / f64::from(1 << 20)
        )));
    }
    run.keep("table-5", &figures)?;
    Ok(figures)
}
