//! `enroute db export` and `import`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use platform::wall_clock::now;
use shards::snapshot::{self, Done};

const EXPORT_EXAMPLES: &str = "\
EXAMPLES:
  A stopped database, loaded by redis-server:
    enroute db export data dump.rdb
    redis-server --dir . --dbfilename dump.rdb --appendonly no

  A database that must keep serving, by way of a backup:
    enroute db backup backups/monday
    enroute db restore backups/monday data-restored
    enroute db export data-restored dump.rdb";

/// Write all entries of a stopped database to an RDB file for Redis 5.0 and later, and Valkey
#[derive(Debug, Clone, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(super) struct ExportArguments {
    /// Data directory that no process serves. No entry in it is changed; expired ones are left out
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,

    /// RDB file to create (version 9, mode 0600); refused if it exists. If anything in the database
    /// is damaged, no file is created
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const IMPORT_EXAMPLES: &str = "\
EXAMPLES:
  The data of a running Redis:
    redis-cli -h redis.example.com --rdb dump.rdb
    enroute db import dump.rdb data
    enroute db --dir data";

/// Store all entries of an RDB file in a new database
#[derive(Debug, Clone, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(super) struct ImportArguments {
    /// RDB file of version 5 to 12, as Redis 2.6 to 8.0 and Valkey up to 8 write it. A key that is
    /// not a string is an error that names it; entries that have expired are left out
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Data directory to create; refused if it is not empty. After an error it contains no database
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Interval of lines about the progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

#[allow(clippy::print_stdout, reason = "what was done is the result")]
pub(super) fn export(ExportArguments { directory, file }: &ExportArguments) -> anyhow::Result<()> {
    let report = reporter(format!("of {} written", file.display()));
    let Done { entries, bytes } = snapshot::export(directory, file, now(), report)?;
    println!("{}: {entries} entries, {bytes} bytes", file.display());
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what was done is the result")]
pub(super) fn import(ImportArguments { file, directory }: &ImportArguments) -> anyhow::Result<()> {
    let length = std::fs::metadata(file).map_or(0, |file| file.len());
    let report = reporter(format!("of {} MiB of {} read", length >> 20, file.display()));
    let Done { entries, .. } = snapshot::import(file, directory, now(), report)?;
    println!("{}: {entries} entries", directory.display());
    Ok(())
}

/// Prints the number of bytes that were read or written, from time to time.
fn reporter(done: String) -> impl FnMut(u64) {
    let mut next = Instant::now() + REPORT_INTERVAL;
    move |bytes| {
        if Instant::now() >= next {
            next = Instant::now() + REPORT_INTERVAL;
            eprintln!("{} MiB {done}", bytes >> 20);
        }
    }
}
