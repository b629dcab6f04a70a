//! `enroute db`: the elastic database.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::Args;
use db::parameters::{MEMORY_BYTES_MIN, parse_sync};

use super::{cache::raise_open_files, signal::EndSignal};
use crate::{
    config::Bytes,
    database::{Database, Setup, Tls},
};

const EXAMPLES: &str = "\
EXAMPLES:
  A database of any size in half a gigabyte of memory:
    enroute db --dir data --memory 512MiB --listen 127.0.0.1:6379
    redis-cli -p 6379 set greeting hello

  Every write on disk before it is acknowledged, a password, encrypted:
    enroute db --dir data --memory 4GiB --sync always --password secret \\
        --tls-cert server.pem --tls-key server.key --listen 0.0.0.0:6380

  More memory, or less, while it serves:
    redis-cli -p 6379 rescale 2GiB";

/// Serve the elastic database: more data than memory, and memory that grows and shrinks
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Keep everything here; made if absent
    #[arg(long, value_name = "DIRECTORY")]
    dir: PathBuf,

    /// Memory of the whole process, index included
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory: Bytes,

    /// Where clients connect
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    listen: SocketAddr,

    /// When writes reach the disk: always (before they are acknowledged), everysec, no
    #[arg(long, value_name = "WHEN", default_value = "everysec")]
    sync: String,

    /// Threads that serve clients [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = super::cache::at_least_one())]
    workers: Option<usize>,

    /// Threads that read from the disk
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = super::cache::at_least_one())]
    readers: usize,

    /// Clients served at once
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = super::cache::at_least_one())]
    clients_max: usize,

    /// Password of the default user
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,

    /// File of users, read at the start and by ACL LOAD, written by ACL SAVE
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    users: Option<PathBuf>,

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

impl Arguments {
    fn setup(&self) -> anyhow::Result<Setup> {
        let memory_bytes = self.memory.count() as u64;
        if memory_bytes < MEMORY_BYTES_MIN {
            bail!("--memory {memory_bytes} bytes: at least 8MiB is needed to serve anything");
        }
        let Some(sync) = parse_sync(&self.sync) else {
            bail!("--sync {}: expected always, everysec or no", self.sync);
        };
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::new(certificate, key, self.tls_ca.as_deref())?)
            }
            _ => None,
        };
        if !self.listen.ip().is_loopback() && self.password.is_none() && self.users.is_none() {
            tracing::warn!(
                "anybody who reaches {} may read and write everything; see --password and --users",
                self.listen
            );
        }
        let listener = TcpListener::bind(self.listen).with_context(|| {
            format!("cannot listen on {}: is another server there already?", self.listen)
        })?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Setup {
            directory: self.dir.clone(),
            memory_bytes,
            sync,
            workers: self.workers.unwrap_or(cores),
            readers: self.readers,
            clients_max: self.clients_max,
            listener,
            tls,
            users: self.users.clone(),
            password: self.password.clone(),
        })
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let end = EndSignal::listen()?;
    raise_open_files();
    let database = Database::start(arguments.setup()?)?;
    let scheme = if arguments.tls_cert.is_some() { "rediss" } else { "redis" };
    eprintln!("{scheme}://{} keeps {}", database.address(), arguments.dir.display());
    end.wait(None);
    database.stop();
    Ok(())
}
