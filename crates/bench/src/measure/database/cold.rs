//! Lookups with almost nothing in memory.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{PAGE, bare::Segments, load};
use crate::{
    figure::{Figure, Goal, Reading},
    load::{Load, Operation, Session},
    measure::redis::throughput,
    process::Cores,
    run::{Run, Side},
};

/// Threads of `enroute db` that read from the disk, and of the bare reads beside it.
const READERS: usize = 8;

/// Lookups with almost nothing in memory, compared with direct reads of 4 KiB from the same files.
pub(in crate::measure) fn cold(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let keys: u64 = if run.short { 50_000 } else { 200_000 };
    let readers = READERS.to_string();
    let options = ["--workers", "1", "--memory", "32MiB", "--readers", &readers];
    let database = run.servers.database(&options, Cores::Any)?;
    Session::connect(database.server.address)?.set_all(keys, PAGE)?;
    thread::sleep(Duration::from_secs(2));
    let files = Segments::open(&database.directory)?;
    let name = "cold-over-wire-vs-pread";
    let rounds = run.interleave(name, |side, round| match side {
        Side::Ours => {
            let server = &database.server;
            let load =
                Load { keys, value_bytes: PAGE, ..load(run, server, Operation::Get, 1, round) };
            throughput(server, &load, Cores::Any)
        }
        Side::Peer => Ok(Reading::new(bare_reads(&files, run.round(), round)?)
            .with("server_us", 0.0)
            .with("server_busy", 0.0)
            .with("client_busy", 0.0)),
    })?;
    let figure = Figure::compared(
        name,
        rounds.medians(),
        "lookups/s",
        "preads of 4 KiB past the page cache",
        Goal::RatioMin(0.0),
    );
    Ok(vec![figure.note(format!(
        "{keys} × 4 KiB, memory 32 MiB, {READERS} reading threads each; client and server take from the \
         reads' two cores what the network costs, so the goal is that of cold-vs-pread, in process"
    ))])
}

/// Returns the rate at which [`READERS`] threads read random pages, in pages per second.
fn bare_reads(segments: &Segments, duration: Duration, seed: u64) -> anyhow::Result<f64> {
    let began = Instant::now();
    let counts = thread::scope(|scope| {
        let threads: Vec<_> = (0..READERS as u64)
            .map(|index| {
                scope.spawn(move || -> anyhow::Result<u64> {
                    let mut reader = segments.reader(seed * 100 + index);
                    let mut count = 0;
                    while began.elapsed() < duration {
                        reader.read()?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?)
            .collect::<anyhow::Result<Vec<u64>>>()
    })?;
    Ok(counts.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64())
}
