//! `enroute db`: the elastic database.

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use db::{
    goal::Goal,
    parameters::{MEMORY_BYTES_MIN, parse_sync},
};
use serde::Deserialize;
use store::elastic::{Sync, Warming};
use tracing::info;
use zeroize::Zeroizing;

mod advise;
mod orchestrator;

use super::{
    cache::raise_open_files,
    signal::{EndSignal, on_hangup},
};
use crate::{
    admin::Admin,
    config::Bytes,
    database::{Database, Setup, Shared, Tls, orchestrator::Place},
    private_file,
};

const EXAMPLES: &str = "\
EXAMPLES:
  A database of any size in half a gigabyte of memory:
    enroute db --dir data --memory 512MiB --listen 127.0.0.1:6379
    redis-cli -p 6379 set greeting hello

  Every write on disk before it is acknowledged, a password, encrypted:
    (umask 077; openssl rand -hex 32 >password)
    enroute db --dir data --memory 4GiB --sync always --password-file password \\
        --tls-cert server.pem --tls-key server.key --listen 0.0.0.0:6380

  More memory, or less, while it serves:
    redis-cli -p 6379 rescale 2GiB
    curl -d '{\"memory\": \"2GiB\"}' http://127.0.0.1:9121/storage    # with --admin 127.0.0.1:9121

  As little memory as answers 99 of 100 lookups within a millisecond:
    enroute db --dir data --memory 256MiB --autoscale p99=1ms,max=4GiB";

/// Serve the elastic database: more data than memory, and memory that grows and shrinks
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Keep everything here; made if absent
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    dir: PathBuf,

    /// Start although shards or segments are missing, and serve what is left: keys in them are absent,
    /// or have the value they had before. Without it such a start is refused
    #[arg(long)]
    accept_data_loss: bool,

    /// Memory of the whole process, index included
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory: Bytes,

    /// Where clients connect
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    listen: SocketAddr,

    /// Read memory, sync and autoscale from this file too, and again at SIGHUP: `memory = "1GiB"`,
    /// `sync = "always"`, `autoscale = "p99=1ms,max=4GiB"`; what the file says counts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Follow the memory limit of the process's cgroup: this share of it, in percent, is the memory
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    follow_cgroup: Option<u8>,

    /// Hold this latency of lookups (99 of 100) with the least memory, at most so much:
    /// p99=1ms,max=4GiB; --memory is where it begins
    #[arg(long, value_name = "GOAL", conflicts_with = "follow_cgroup")]
    autoscale: Option<Goal>,

    /// Ask here before taking more memory, and say when less is needed: http://HOST:PORT/PATH
    #[arg(long, value_name = "URL")]
    orchestrator: Option<Place>,

    /// Serve state and rescaling over HTTP here; asks for no password
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<SocketAddr>,

    /// When writes reach the disk: always (before they are acknowledged), everysec, no
    #[arg(long, value_name = "WHEN", default_value = "everysec")]
    sync: String,

    /// What is read ahead into memory that was granted: useful (what was looked up most, first),
    /// sequential (in the order of the storage table, as in the paper), off
    #[arg(long, value_name = "WHAT", default_value = "useful", value_parser = warming)]
    warming: Warming,

    /// Threads that serve clients [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = super::cache::at_least_one())]
    workers: Option<usize>,

    /// Threads that read from the disk what workers cannot have the kernel read for them
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = super::cache::at_least_one())]
    readers: usize,

    /// Clients served at once
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = super::cache::at_least_one())]
    clients_max: usize,

    /// File whose first line is the password of the default user. Refused if other users of the machine can
    /// read the file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Password of the default user. Warning: `ps` shows it to every user of the machine; prefer
    /// --password-file
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    password: Option<String>,

    /// File of users, read at the start and by ACL LOAD, written by ACL SAVE; it has to exist. Refused if
    /// other users of the machine can write it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["password", "password_file"])]
    users: Option<PathBuf>,

    /// Serve NetCache's protocol here too, over UDP, to whoever asks: what `enroute switch` caches
    #[arg(long, value_name = "HOST:PORT", requires = "switch", conflicts_with_all = ["password", "password_file", "users"])]
    netcache: Option<SocketAddr>,

    /// The address of the switch before it, nobody else's updates are believed
    #[arg(long, value_name = "ADDRESS", requires = "netcache")]
    switch: Option<IpAddr>,

    /// Certificate chain, PEM: all connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Clients must show a certificate signed by this authority, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Ask a running database what every memory size would give
    Advise(advise::Arguments),
    /// Grant a database the memory it asks for, by the limit of a cgroup
    Orchestrator(orchestrator::Arguments),
}

fn warming(text: &str) -> Result<Warming, String> {
    match text {
        "useful" => Ok(Warming::Useful),
        "sequential" => Ok(Warming::Sequential),
        "off" => Ok(Warming::Off),
        _ => Err("expected useful, sequential or off".into()),
    }
}

/// What the file of `--config` may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    memory: Option<Bytes>,
    sync: Option<String>,
    autoscale: Option<String>,
}

/// What the file can change while the database serves.
struct Live {
    memory_bytes: u64,
    sync: Sync,
    goal: Option<Goal>,
}

impl Arguments {
    /// What the command line and the file say.
    fn live(&self) -> anyhow::Result<Live> {
        let document = match &self.config {
            None => Document::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                toml::from_str(&text).with_context(|| path.display().to_string())?
            }
        };
        let memory_bytes = document.memory.unwrap_or(self.memory).count() as u64;
        if memory_bytes < MEMORY_BYTES_MIN {
            bail!(
                "memory of {memory_bytes} bytes: the whole process, code included, can be kept to \
                 32MiB or more"
            );
        }
        let named = document.sync.as_ref().unwrap_or(&self.sync);
        let Some(sync) = parse_sync(named) else {
            bail!("sync {named:?}: expected always, everysec or no");
        };
        let goal = match &document.autoscale {
            None => self.autoscale,
            Some(text) if text.is_empty() => None,
            Some(text) => Some(text.parse().map_err(|why| anyhow!("autoscale: {why}"))?),
        };
        if goal.is_some() && self.follow_cgroup.is_some() {
            bail!("autoscale in the file and --follow-cgroup both decide on the memory: drop one");
        }
        Ok(Live { memory_bytes, sync, goal })
    }

    fn setup(&self) -> anyhow::Result<Setup> {
        let Live { memory_bytes, sync, goal } = self.live()?;
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::new(certificate, key, self.tls_ca.as_deref())?)
            }
            _ => None,
        };
        let password = match &self.password_file {
            Some(path) => Some(private_file::read_password(path)?),
            None => self.password.clone().map(Zeroizing::new),
        };
        let listener = TcpListener::bind(self.listen).with_context(|| {
            format!("cannot listen on {}: is another server there already?", self.listen)
        })?;
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

/// Reads the file again whenever SIGHUP comes; a file with a mistake changes nothing.
fn reload(arguments: Arguments, shared: Arc<Shared>) -> anyhow::Result<()> {
    on_hangup(move || {
        let Live { memory_bytes, sync, goal } = arguments.live()?;
        shared.server.parameters.set_goal(goal);
        shared.set_sync(sync);
        // With a goal, the file says where the memory begins.
        if goal.is_none() {
            shared.rescale(memory_bytes);
        }
        info!(memory_bytes, ?sync, ?goal, "SIGHUP: the file was read again");
        Ok(())
    })
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        None => {}
        Some(Command::Advise(asked)) => return advise::run(asked),
        Some(Command::Orchestrator(asked)) => return orchestrator::run(asked),
    }
    let end = EndSignal::listen()?;
    raise_open_files();
    let mut database = Database::start(arguments.setup()?)?;
    if let (Some(listen), Some(switch)) = (arguments.netcache, arguments.switch) {
        database.serve_netcache(listen, switch)?;
        eprintln!("netcache: udp {listen}, behind {switch}");
    }
    let scheme = if arguments.tls_cert.is_some() { "rediss" } else { "redis" };
    eprintln!("{scheme}://{} keeps {}", database.address(), arguments.dir.display());
    let admin = arguments.admin.map(TcpListener::bind).transpose();
    let admin =
        admin.context("cannot listen for the admin endpoint: is another server there already?")?;
    let admin = admin
        .map(|socket| Admin::start(socket, Arc::clone(database.shared()), Vec::new()))
        .transpose()?;
    if let Some(admin) = &admin {
        eprintln!("admin: http://{}/", admin.address());
    }
    if arguments.config.is_some() {
        reload(arguments.clone(), Arc::clone(database.shared()))?;
    }
    end.wait(None);
    database.stop();
    Ok(())
}
