//! Size of the files relative to the data, while everything is overwritten.

use std::{fs, os::unix::fs::MetadataExt, path::Path, thread, time::Duration};

use super::{PAGE, load};
use crate::{
    figure::{Figure, Goal, median},
    load::{Load, Operation, Session},
    process::Cores,
    run::Run,
};

/// Bytes of a record of 4 KiB under a key of 16: header, key with its database, body, padding.
const RECORD: u64 = 4_160;
const LOOK: Duration = Duration::from_millis(50);

/// Entries of 4 KiB overwritten evenly, as fast as they are taken, for three values of each.
pub(in crate::measure) fn overwrite(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let keys: u64 = if run.short { 50_000 } else { 200_000 };
    let database = run.servers.database(&["--memory", "128MiB"], Cores::Any)?;
    let mut session = Session::connect(database.server.address)?;
    session.set_all(keys, PAGE)?;
    let (mut shares, mut written) = (Vec::new(), 0);
    while written < 3 * keys {
        let base = load(run, &database.server, Operation::Set, 1, written);
        let load = Load { keys, value_bytes: PAGE, ..base };
        let under_way = thread::scope(|scope| -> anyhow::Result<_> {
            let writer = scope.spawn(move || load.run());
            while !writer.is_finished() {
                shares.push(bytes(&database.directory)? as f64 / (keys * RECORD) as f64);
                thread::sleep(LOOK);
            }
            writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?
        })?;
        written += under_way.operations;
        run.keep("files-over-live", &shares)?;
        run.show("overwriting", written as f64 / (3 * keys) as f64);
    }
    let most = shares.iter().copied().fold(0.0, f64::max);
    let usual = median(shares.iter().copied());
    let figure = Figure::compared(
        "files-over-live",
        (most, 1.0),
        "bytes on disk for each of live data, at most",
        "the records of all entries",
        Goal::ValueMax(1.5),
    );
    let looks = shares.len();
    Ok(vec![figure.note(format!(
        "{keys} × 4 KiB, {written} overwritten evenly by 50 connections while {looks} looks were taken; usually {usual:.2}"
    ))])
}

/// Size of the files on disk; files that are removed during the scan are ignored.
fn bytes(directory: &Path) -> anyhow::Result<u64> {
    let mut total = 0;
    for shard in fs::read_dir(directory)? {
        let Ok(files) = fs::read_dir(shard?.path()) else { continue };
        total +=
            files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks() * 512)).sum::<u64>();
    }
    Ok(total)
}
