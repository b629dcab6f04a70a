//! `enroute db backup`, `restore` and `check`.

use std::{path::PathBuf, thread, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use shards::offline;
use store::elastic::backup::Findings;

use crate::{
    admin::{Backup, BackupWanted},
    cli::admin,
};

const BACKUP_EXAMPLES: &str = "\
EXAMPLES:
  Back up a running database, once a day; unchanged segments are shared with the day before:
    enroute db --dir data --admin 127.0.0.1:9121
    enroute db backup backups/monday
    enroute db backup backups/tuesday

  The way back:
    enroute db check backups/tuesday
    enroute db restore backups/tuesday data-restored
    enroute db --dir data-restored";

/// Back up a running database
#[derive(Debug, Clone, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(super) struct BackupArguments {
    /// Directory to create, on the machine of the database. Segments that another backup in the
    /// same parent directory has are linked, not copied
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,

    /// Address of the database's admin endpoint
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9121")]
    admin: String,
}

const RESTORE_EXAMPLES: &str = "\
EXAMPLES:
  Serve what a backup has:
    enroute db restore backups/monday data-restored
    enroute db --dir data-restored";

/// Copy a backup to a new data directory
#[derive(Debug, Clone, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(super) struct RestoreArguments {
    /// Directory of a complete backup. All of its checksums are verified first
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Data directory to create; refused if it is not empty
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

const CHECK_EXAMPLES: &str = "\
EXAMPLES:
  A data directory that no process serves, and a backup:
    enroute db check data
    enroute db check backups/monday";

/// Read every record of a stopped database or a backup, and print each damaged place
#[derive(Debug, Clone, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(super) struct CheckArguments {
    /// Data directory, or directory of a backup. Nothing in it is changed. Exit status 1 if
    /// anything is damaged or missing
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Interval of requests while a backup is made.
const POLL: Duration = Duration::from_millis(100);

#[allow(clippy::print_stdout, reason = "what was done is the result")]
pub(super) fn back_up(arguments: &BackupArguments) -> anyhow::Result<()> {
    let directory = std::path::absolute(&arguments.directory)?;
    let wanted = BackupWanted { directory };
    let made = loop {
        let answer = admin::post(&arguments.admin, "/backup", &wanted)?;
        let backup: Backup = serde_json::from_slice(&answer)
            .with_context(|| format!("{}: unexpected answer", arguments.admin))?;
        if backup.ended {
            break backup;
        }
        thread::sleep(POLL);
    };
    let Backup { linked_bytes, copied_bytes, .. } = made;
    let shown = wanted.directory.display();
    println!("{shown}: complete; {linked_bytes} bytes linked, {copied_bytes} bytes copied");
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what was done is the result")]
pub(super) fn restore(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let contents = offline::restore(&arguments.backup, &arguments.directory)?;
    let files: usize = contents.shards.iter().map(|shard| shard.files.len()).sum();
    let (shown, shards) = (arguments.directory.display(), contents.shards.len());
    println!("{shown}: {files} files of {shards} shards restored");
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the findings are the result")]
pub(super) fn check(arguments: &CheckArguments) -> anyhow::Result<()> {
    let Findings { shards, segments, records, damage, cuts } =
        offline::check(&arguments.directory)?;
    damage.iter().chain(&cuts).for_each(|line| println!("{line}"));
    println!("{records} intact records in {segments} segments of {shards} shards");
    if !damage.is_empty() {
        bail!("{}: {} damaged places", arguments.directory.display(), damage.len());
    }
    Ok(())
}
