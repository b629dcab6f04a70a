//! `enroute keyserver serve`.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, sync::Arc, thread};

use clap::Args;
use keyserver::cache;
use platform::{
    certificate::{Life, Watch},
    harden::harden,
    slow_lane::Lane,
};
use tracing::info;

use super::{
    super::{
        admin::Admin,
        signal::{EndSignal, on_hangup},
    },
    Vault,
};
use crate::admin::Counted;
use keyservice::{
    audit::Log,
    policy,
    server::{Configuration, Server},
    service::Service,
    tls::{Files, Tls},
    vault::keyring,
};

/// Default of `--keys-max`.
const KEYS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("above zero");

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Address that edges connect to; port 0 picks a free port, which is printed
    #[arg(long, value_parser = crate::cli::socket_address, default_value = "127.0.0.1:7443", value_name = "ADDRESS")]
    listen: SocketAddr,

    #[command(flatten)]
    vault: Vault,

    /// Certificate chain of the key server, PEM
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,

    /// Private key of --certificate, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Authorities that must have signed an edge's certificate, PEM
    #[arg(long, value_name = "FILE")]
    edge_authorities: PathBuf,

    /// Policy file, TOML: which edge may use which key by which operation. Operations
    /// that no rule allows are denied
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,

    /// Audit log: every use of a key is written here before it is answered. Created if missing; one
    /// key server per log
    #[arg(long, value_name = "FILE")]
    audit: PathBuf,

    /// Maximum number of keys kept parsed in memory; beyond it the least recently used is dropped
    #[arg(long, default_value_t = KEYS_MAX, value_name = "COUNT")]
    keys_max: NonZeroUsize,

    /// Number of threads that serve connections, 1 to 1024 [default: one per core]
    #[arg(long, value_name = "COUNT", value_parser = crate::cli::threads())]
    workers: Option<usize>,

    /// Number of threads for RSA and P-384 operations, 1 to 1024 [default: one per core]
    #[arg(long, value_name = "COUNT", value_parser = crate::cli::threads())]
    slow_workers: Option<usize>,

    /// Address of the admin endpoint, HTTP: statistics and metrics. It has no authentication: use a
    /// loopback address [default: no admin endpoint]
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Before the first secret is read.
    harden()?;
    let end = EndSignal::listen()?;
    let admin = Admin::at(arguments.admin)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let files = Files {
        certificate: arguments.certificate.clone(),
        key: arguments.key.clone(),
        edge_authorities: arguments.edge_authorities.clone(),
    };
    let service = Arc::new(Service::new(
        policy::read(&arguments.policy)?,
        keyring(arguments.vault.kek_file.as_deref())?,
        &cache::Config { keys_max: arguments.keys_max },
        Lane::start(arguments.slow_workers.unwrap_or(cores))?,
        Log::open(&arguments.audit)?,
    ));
    let configuration = Configuration {
        listen: arguments.listen,
        tls: Arc::new(Tls::new(files.read()?)),
        database: arguments.vault.storage.place()?,
        workers: arguments.workers.unwrap_or(cores),
    };
    let watch = Watch::start(vec![life(&files)?])?;
    let server = Server::start(&configuration, Arc::clone(&service))?;
    let reloaded = Reloaded {
        policy: arguments.policy.clone(),
        kek: arguments.vault.kek_file.clone(),
        files,
        service: Arc::clone(&service),
        tls: configuration.tls,
        watch,
    };
    on_hangup(move || reloaded.read_again())?;
    eprintln!("listening on {}", server.address());
    let reported = Arc::clone(&service);
    let _admin =
        admin.map(|admin| admin.serve(Arc::new(Counted(move || reported.report())))).transpose()?;
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

/// Files that are read again on SIGHUP, and the components that use them.
struct Reloaded {
    policy: PathBuf,
    kek: Option<PathBuf>,
    files: Files,
    service: Arc<Service>,
    tls: Arc<Tls>,
    watch: Watch,
}

impl Reloaded {
    fn read_again(&self) -> anyhow::Result<()> {
        let (policy, keyring) = (policy::read(&self.policy)?, keyring(self.kek.as_deref())?);
        let (acceptor, life) = (self.files.read()?, life(&self.files)?);
        self.service.log().reopen()?;
        self.service.replace(policy, keyring);
        self.tls.replace(acceptor);
        self.watch.replace(vec![life]);
        info!("SIGHUP: policy, key-encryption keys and certificates reloaded, audit log reopened");
        Ok(())
    }
}

fn life(files: &Files) -> anyhow::Result<Life> {
    Life::read("the key server", &files.certificate)
}
