//! Next to nothing in memory.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{PAGE, load};
use crate::{
    figure::{Figure, Goal, Reading},
    load::{Load, Operation, Session},
    measure::redis::throughput,
    process::Cores,
    run::{Run, Side},
};

/// Threads of `enroute db` that read from the disk, and of the bare reads beside it.
const READERS: usize = 8;

/// Next to nothing in memory, against bare reads of 4 KiB from the same files.
pub(in crate::measure) fn cold(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let keys: u64 = if run.short { 50_000 } else { 200_000 };
    let readers = READERS.to_string();
    let options = ["--workers", "1", "--memory", "32MiB", "--readers", &readers];
    let database = run.servers.database(&options, Cores::Any)?;
    Session::connect(database.server.address)?.set_all(keys, PAGE)?;
    thread::sleep(Duration::from_secs(2));
    let files = segments(&database.directory)?;
    let name = "cold-vs-pread";
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
        Goal::RatioMin(0.8),
    );
    Ok(vec![figure.note(format!("{keys} × 4 KiB, memory 32 MiB, {READERS} reading threads each"))])
}

/// The log's files, opened to be read past the page cache.
fn segments(directory: &Path) -> anyhow::Result<Vec<(File, u64)>> {
    let mut files = Vec::new();
    for shard in fs::read_dir(directory)? {
        let shard = shard?.path();
        if !shard.is_dir() {
            continue;
        }
        for file in fs::read_dir(shard)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
                let file = OpenOptions::new().read(true).custom_flags(direct).open(&path)?;
                let pages = file.metadata()?.len() / PAGE as u64;
                files.push((file, pages));
            }
        }
    }
    ensure!(!files.is_empty(), "no files of the log in {}", directory.display());
    Ok(files)
}

/// How many pages a second [`READERS`] threads read at random.
fn bare_reads(files: &[(File, u64)], duration: Duration, seed: u64) -> anyhow::Result<f64> {
    let began = Instant::now();
    let counts = thread::scope(|scope| {
        let threads: Vec<_> = (0..READERS as u64)
            .map(|index| {
                scope.spawn(move || -> anyhow::Result<u64> {
                    let mut random = Pcg64Mcg::seed_from_u64(seed * 100 + index);
                    let mut bytes = vec![0_u8; PAGE * 2];
                    let aligned = bytes.as_ptr().align_offset(PAGE);
                    let buffer = &mut bytes[aligned..aligned + PAGE];
                    let mut count = 0;
                    while began.elapsed() < duration {
                        let (file, pages) = &files[random.random_range(0..files.len())];
                        file.read_exact_at(buffer, random.random_range(0..*pages) * PAGE as u64)?;
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
