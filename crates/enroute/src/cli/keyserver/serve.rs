//! `enroute keyserver serve`.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use clap::Args;
use keyserver::cache;
use tracing::info;

use super::{
    super::signal::{EndSignal, on_hangup},
    Vault,
};
use crate::certificate::{self, Life};
use crate::keyserver::{
    audit::Log,
    harden::harden,
    lane::Lane,
    policy,
    server::{Configuration, Server},
    service::Service,
    vault::keyring,
};

/// Keys that stay parsed unless somebody says otherwise.
const KEYS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("above zero");

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Where edges connect; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:7443", value_name = "ADDRESS")]
    listen: SocketAddr,

    #[command(flatten)]
    vault: Vault,

    /// The key server's own certificate and chain, PEM
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,

    /// The key of --certificate, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Authorities whose certificates edges must have, PEM
    #[arg(long, value_name = "FILE")]
    edge_authorities: PathBuf,

    /// What each edge may do, TOML; without it nothing is allowed, so there is no server
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,

    /// Where every use of a key is written; begun if it is not there
    #[arg(long, value_name = "FILE")]
    audit: PathBuf,

    /// Keys kept parsed in memory
    #[arg(long, default_value_t = KEYS_MAX, value_name = "COUNT")]
    keys_max: NonZeroUsize,

    /// Threads that serve connections [default: one for each core]
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroUsize>,

    /// Threads for RSA and P-384 operations [default: one for each core]
    #[arg(long, value_name = "COUNT")]
    slow_workers: Option<NonZeroUsize>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Before the first secret is read.
    harden()?;
    let end = EndSignal::listen()?;
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let policy_file = arguments.policy.clone();
    let kek_file = arguments.vault.kek_file.clone();
    let service = Arc::new(Service::new(
        policy::read(&policy_file)?,
        keyring(kek_file.as_deref())?,
        &cache::Config { keys_max: arguments.keys_max },
        Lane::start(arguments.slow_workers.unwrap_or(cores).get())?,
        Log::open(&arguments.audit)?,
    ));
    let configuration = Configuration {
        listen: arguments.listen,
        certificate: arguments.certificate.clone(),
        key: arguments.key.clone(),
        edge_authorities: arguments.edge_authorities.clone(),
        database: arguments.vault.place()?,
        workers: arguments.workers.unwrap_or(cores).get(),
    };
    certificate::watch(vec![Life::read("the key server", &arguments.certificate)?])?;
    let server = Server::start(&configuration, Arc::clone(&service))?;
    eprintln!("listening on {}", server.address());
    let reloaded = Arc::clone(&service);
    on_hangup(move || reload(&policy_file, kek_file.as_deref(), &reloaded))?;
    end.wait(None);
    server.stop();
    let (stats, kept) = service.cache_stats();
    let chain = service.log().chain();
    eprintln!(
        "ended: {} keys parsed, {} hits, {} misses, {} evictions; audit log: {} lines, head {}",
        kept,
        stats.hits,
        stats.misses,
        stats.evictions,
        chain.count,
        wire::ski::KeyId(chain.head),
    );
    Ok(())
}

fn reload(policy_file: &Path, kek_file: Option<&Path>, service: &Service) -> anyhow::Result<()> {
    let (policy, keyring) = (policy::read(policy_file)?, keyring(kek_file)?);
    service.log().reopen()?;
    service.replace(policy, keyring);
    info!("SIGHUP: policy, key-encryption keys and audit log read again");
    Ok(())
}
