//! `enroute state agent`.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use acl::Acl;
use anyhow::{Context, bail};
use clap::Args;
use notation::parse_duration;
use platform::{listening, tls};
use tracing::info;

use crate::{
    admin::Counted,
    cli::{
        admin::Admin,
        cache,
        signal::{EndSignal, on_hangup},
        tls::TlsFiles,
    },
    config::{Bytes, machine},
    state::{
        agent::{Service, Setup},
        default_name,
    },
};

const EXAMPLES: &str = "\
EXAMPLES:
  All keys of the cluster at one address, for any client:
    enroute state agent --listen 127.0.0.1:6380 --cluster 10.0.0.1:6379,10.0.0.2:6379
    redis-cli -p 6380 incr visits
    redis-benchmark -p 6380 -t get,set";

/// Run an agent: serve all keys of the cluster to the applications of one host
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Address that clients connect to. Without --users or --tls-ca every client has the rights of
    /// the agent: use a loopback address
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT", default_value = "127.0.0.1:6380")]
    listen: SocketAddr,

    #[command(flatten)]
    nodes: super::Nodes,

    /// Name of the agent, unique in the cluster [default: host name and port]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Interval between reports to the placer of slot accesses and round-trip times. 0 disables
    /// reports, measurements and copies: the agent then only routes
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    report_period: Duration,

    /// ACL file in the format of Redis: the users that clients log in as, and their rights. SIGHUP
    /// reads it again. Refused if other users of the machine can write it [default: clients need no
    /// login and may do everything]
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsFiles,

    /// Maximum number of connected clients; more are rejected
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = cache::at_least_one())]
    clients_max: usize,

    /// Memory for copies of slots that several hosts read. The process uses at most this, plus 1/16
    /// of it, plus 96 MiB, of which 64 MiB are for client buffers
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: Bytes,

    /// Address of the admin endpoint, HTTP: statistics and metrics. It has no authentication: use a
    /// loopback address [default: no admin endpoint]
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT")]
    admin: Option<SocketAddr>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(lacks) = machine::lacks(arguments.memory) {
        bail!("--memory: {lacks}");
    }
    let listen = arguments.listen;
    let cluster = arguments.nodes.access()?;
    let listener = listening::bind(listen)?;
    let admin = Admin::at(arguments.admin)?;
    let end = EndSignal::flag()?;
    let seed = RandomState::new().hash_one(0u8);
    let address = listener.local_addr().context("the socket has no address")?;
    let tls = arguments.tls.server()?;
    let setup = Setup {
        cluster: cluster.clone(),
        users: arguments.users.clone(),
        tls: tls.clone(),
        clients_max: arguments.clients_max,
        memory: arguments.memory.count(),
        name: arguments.name.clone().unwrap_or_else(|| default_name(address)),
        report_period: arguments.report_period,
        seed,
    };
    let service = Service::new(listener, setup).context("cannot start the agent")?;
    let knows_clients = tls.as_ref().is_some_and(|tls| tls.knows_clients());
    if !address.ip().is_loopback() && service.users().is_open() && !knows_clients {
        let acts = match &cluster.login {
            Some(_) => {
                format!("has the rights of the user {} at the cluster", arguments.nodes.user)
            }
            None => "can read and write everything at the cluster".to_owned(),
        };
        tracing::warn!(
            "the agent does not authenticate its clients: every client that can connect to \
             {address} {acts}. Set --users or --tls-ca, or listen on 127.0.0.1"
        );
    }
    if arguments.users.is_some() || tls.is_some() {
        reload(arguments.users.clone(), tls.clone(), Arc::clone(service.users()))?;
    }
    let nodes = cluster.seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let scheme = if tls.is_some() { "rediss" } else { "redis" };
    eprintln!("{scheme}://{} -> {nodes}", service.address());
    let reports = Arc::new(Counted(service.reports()));
    let _admin = admin.map(|admin| admin.serve(reports)).transpose()?;
    service.run(&end).context("the agent stopped")
}

/// Reads the users file and the files of TLS again on SIGHUP; a mistake in any changes nothing.
fn reload(
    file: Option<PathBuf>,
    tls: Option<Arc<tls::Server>>,
    users: Arc<Acl>,
) -> anyhow::Result<()> {
    on_hangup(move || {
        let config = tls.as_ref().map(|tls| tls.files().read()).transpose()?;
        if let Some(file) = &file {
            crate::users::load(&users, file)?;
        }
        if let (Some(tls), Some(config)) = (&tls, config) {
            tls.replace(config);
        }
        info!("SIGHUP: users and TLS files read again");
        Ok(())
    })
}
