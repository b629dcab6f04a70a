//! `enroute db`: the elastic database.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use db::{goal::Goal, memory::MEMORY_BYTES_MIN, parameters::parse_sync};
use notation::place;
use serde::Deserialize;
use store::elastic::{Sync, Warming};
use tracing::info;
use zeroize::Zeroizing;

mod advise;
mod backup;
mod orchestrator;
mod snapshot;

use platform::{listening, memory, private_file};

use super::{
    admin::Admin,
    signal::{EndSignal, on_hangup},
    tls::TlsFiles,
};
use crate::{
    config::Bytes,
    database::{Database, Setup, Shared, orchestrator::Place},
};

const EXAMPLES: &str = "\
EXAMPLES:
  A database in 512 MiB of memory; the data can be larger:
    enroute db --dir data --memory 512MiB --listen 127.0.0.1:6379
    redis-cli -p 6379 set greeting hello

  Durable writes, password and TLS:
    (umask 077; openssl rand -hex 32 >password)
    enroute db --dir data --memory 4GiB --sync always --password-file password \\
        --tls-cert server.pem --tls-key server.key --listen 0.0.0.0:6380

  Change the memory budget while serving:
    redis-cli -p 6379 rescale 2GiB
    curl -d '{\"memory\": \"2GiB\"}' http://127.0.0.1:9121/storage    # with --admin 127.0.0.1:9121

  Back up while serving, and restore (`enroute db backup --help`):
    enroute db backup backups/monday    # with --admin 127.0.0.1:9121
    enroute db restore backups/monday data-restored

  Import an RDB file of Redis, and export one (`enroute db import --help`):
    enroute db import dump.rdb data
    enroute db export data dump.rdb

  Keep the 99th percentile of the lookup time below 1 ms with the least memory:
    enroute db --dir data --memory 256MiB --autoscale p99=1ms,max=4GiB";

/// Run the elastic database: all data on disk, a resizable part of it in memory
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Data directory; created if missing
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    dir: PathBuf,

    /// Start although shards, segments or manifests are missing. Keys in missing files are absent
    /// or have an earlier value. Without this option such a start is refused
    #[arg(long)]
    accept_data_loss: bool,

    /// Memory limit of the whole process, including index and buffers; at least 32MiB
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory: Bytes,

    /// Address that clients connect to
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    listen: SocketAddr,

    /// TOML file that sets memory, sync and autoscale; SIGHUP reads it again. The file overrides
    /// the command line. Example: `memory = "1GiB"`, `sync = "always"`, `autoscale =
    /// "p99=1ms,max=4GiB"`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set the memory budget to this percentage of the memory limit of the process's cgroup, read
    /// twice a second [default: --memory is used]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    follow_cgroup: Option<u8>,

    /// Adjust the memory budget so that the 99th percentile of the lookup time stays below a
    /// target: p99=TIME,max=SIZE, for example p99=1ms,max=4GiB. --memory is the initial budget
    /// [default: fixed budget]
    #[arg(long, value_name = "GOAL", conflicts_with = "follow_cgroup")]
    autoscale: Option<Goal>,

    /// Service that is asked before the memory budget grows, and informed after it has shrunk:
    /// http://HOST:PORT/PATH [default: none]
    #[arg(long, value_name = "URL")]
    orchestrator: Option<Place>,

    /// Address of the admin endpoint, HTTP: statistics, metrics and rescaling. It has no
    /// authentication: use a loopback address [default: no admin endpoint]
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT")]
    admin: Option<SocketAddr>,

    /// When writes are synced to disk: always (before they are acknowledged), everysec (a crash of
    /// the machine can lose the last second or two), no (the operating system decides)
    #[arg(long, value_name = "WHEN", default_value = "everysec")]
    sync: String,

    /// Data to read ahead into free memory while the disk is idle: useful (the entries that are
    /// looked up most), sequential (the order of the storage table, as in the dReDBox paper), off
    #[arg(long, value_name = "WHAT", default_value = "useful", value_parser = warming)]
    warming: Warming,

    /// Number of worker threads, 1 to 1024 [default: one per core]
    #[arg(long, value_name = "COUNT", value_parser = super::threads())]
    workers: Option<usize>,

    /// Fallback disk-reader threads, used when io_uring is unavailable
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = super::cache::at_least_one())]
    readers: usize,

    /// Maximum number of connected clients; more are rejected
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = super::cache::at_least_one())]
    clients_max: usize,

    /// File whose first line is the password of the user `default`. Refused if other users of the
    /// machine can read it [default: no password]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Password of the user `default`. `ps` shows it to every user of the machine: prefer
    /// --password-file
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    password: Option<String>,

    /// ACL file in the format of Redis, read at the start and by ACL LOAD, written by ACL SAVE. It
    /// must exist. Refused if other users of the machine can write it [default: none]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["password", "password_file"])]
    users: Option<PathBuf>,

    /// UDP address on which NetCache's protocol is served to `enroute switch`, without
    /// authentication [default: not served]
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT", requires = "switch", conflicts_with_all = ["password", "password_file", "users"])]
    netcache: Option<SocketAddr>,

    /// Address of the switch in front of the database; updates from other addresses are ignored
    #[arg(long, value_name = "ADDRESS", requires = "netcache")]
    switch: Option<IpAddr>,

    #[command(flatten)]
    tls: TlsFiles,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Print the hit ratio and disk wait that a running database would have with other memory sizes
    Advise(advise::Arguments),
    /// Back up a running database
    Backup(backup::BackupArguments),
    /// Read every record of a stopped database or a backup, and print each damaged place
    Check(backup::CheckArguments),
    /// Write all entries of a stopped database to an RDB file, which Redis loads
    Export(snapshot::ExportArguments),
    /// Store all entries of an RDB file of Redis in a new database
    Import(snapshot::ImportArguments),
    /// Run the reference orchestrator: grant memory to databases by setting the limit of a cgroup
    Orchestrator(orchestrator::Arguments),
    /// Copy a backup to a new data directory
    Restore(backup::RestoreArguments),
}

fn warming(text: &str) -> Result<Warming, String> {
    match text {
        "useful" => Ok(Warming::Useful),
        "sequential" => Ok(Warming::Sequential),
        "off" => Ok(Warming::Off),
        _ => Err("expected useful, sequential or off".into()),
    }
}

/// Contents of the file of `--config`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    memory: Option<Bytes>,
    sync: Option<String>,
    autoscale: Option<String>,
}

impl Document {
    /// Parses the text of the file called `name`. An error names line and column.
    fn parse(text: &str, name: &str) -> anyhow::Result<Self> {
        toml::from_str(text)
            .map_err(|error| anyhow!("{name}:{}: {}", place(text, error.span()), error.message()))
    }
}

/// Settings that the file can change while the database serves.
struct Live {
    memory_bytes: u64,
    sync: Sync,
    goal: Option<Goal>,
}

impl Arguments {
    /// Settings from the command line and the file.
    fn live(&self) -> anyhow::Result<Live> {
        let document = match &self.config {
            None => Document::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                Document::parse(&text, &path.display().to_string())?
            }
        };
        let memory_bytes = document.memory.unwrap_or(self.memory).count() as u64;
        if memory_bytes < MEMORY_BYTES_MIN {
            bail!(
                "memory: expected at least 32MiB for the whole process, got {memory_bytes} bytes"
            );
        }
        if let Some(lacks) = memory::lacks(memory_bytes) {
            bail!("memory: {lacks}");
        }
        let named = document.sync.as_ref().unwrap_or(&self.sync);
        let Some(sync) = parse_sync(named) else {
            bail!("sync: expected always, everysec or no, got {named:?}");
        };
        let goal = match &document.autoscale {
            None => self.autoscale,
            Some(text) if text.is_empty() => None,
            Some(text) => Some(text.parse().map_err(|why| anyhow!("autoscale: {why}"))?),
        };
        if goal.is_some() && self.follow_cgroup.is_some() {
            bail!(
                "expected one way to set the memory budget, got `autoscale` in the file and \
                 --follow-cgroup: remove one"
            );
        }
        Ok(Live { memory_bytes, sync, goal })
    }

    fn setup(&self) -> anyhow::Result<Setup> {
        let Live { memory_bytes, sync, goal } = self.live()?;
        let tls = self.tls.server()?;
        let password = match &self.password_file {
            Some(path) => Some(private_file::read_password(path)?),
            None => self.password.clone().map(Zeroizing::new),
        };
        let listener = listening::bind(self.listen)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Setup {
            directory: self.dir.clone(),
            memory_bytes,
            accept_data_loss: self.accept_data_loss,
            sync,
            warming: self.warming,
            workers: self.workers.unwrap_or(cores),
            readers: self.readers,
            clients_max: self.clients_max,
            listener,
            tls,
            users: self.users.clone(),
            password,
            follow_cgroup: self.follow_cgroup,
            goal,
            orchestrator: self.orchestrator.clone(),
        })
    }
}

/// Reads the file again on SIGHUP; a file with a mistake changes nothing.
fn reload(arguments: Arguments, shared: Arc<Shared>) -> anyhow::Result<()> {
    on_hangup(move || {
        let Live { memory_bytes, sync, goal } = arguments.live()?;
        shared.server.parameters.set_goal(goal);
        shared.set_sync(sync);
        // With `autoscale`, the memory in the file is the initial budget.
        if goal.is_none() {
            shared.rescale(memory_bytes);
        }
        info!(memory_bytes, ?sync, ?goal, "SIGHUP: configuration file reloaded");
        Ok(())
    })
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        None => {}
        Some(Command::Advise(asked)) => return advise::run(asked),
        Some(Command::Backup(asked)) => return backup::back_up(asked),
        Some(Command::Check(asked)) => return backup::check(asked),
        Some(Command::Export(asked)) => return snapshot::export(asked),
        Some(Command::Import(asked)) => return snapshot::import(asked),
        Some(Command::Restore(asked)) => return backup::restore(asked),
        Some(Command::Orchestrator(asked)) => return orchestrator::run(asked),
    }
    let end = EndSignal::listen()?;
    platform::open_files::raise();
    let admin = Admin::at(arguments.admin)?;
    let mut database = Database::start(arguments.setup()?)?;
    if let (Some(listen), Some(switch)) = (arguments.netcache, arguments.switch) {
        database.serve_netcache(listen, switch)?;
        eprintln!("netcache: udp {listen}, switch {switch}");
    }
    let scheme = if arguments.tls.are_given() { "rediss" } else { "redis" };
    eprintln!("{scheme}://{} stores its data in {}", database.address(), arguments.dir.display());
    let shared = Arc::clone(database.shared());
    let _admin = admin.map(|admin| admin.serve(shared)).transpose()?;
    if arguments.config.is_some() {
        reload(arguments.clone(), Arc::clone(database.shared()))?;
    }
    end.wait(None);
    database.stop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Document;

    #[test]
    fn a_mistake_in_the_file_has_its_line_and_column() {
        let error = Document::parse("memory = \"64MiB\"\nsink = \"no\"\n", "db.toml");
        let error = error.expect_err("an unknown field").to_string();
        assert!(error.starts_with("db.toml:2:1: unknown field `sink`"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
