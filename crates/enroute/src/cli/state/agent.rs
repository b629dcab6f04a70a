//! `enroute state agent`.

use std::{
    hash::{BuildHasher, RandomState},
    net::{SocketAddr, TcpListener},
};

use anyhow::Context;
use clap::Args;

use crate::{
    cli::{cache, signal::EndSignal},
    state::agent::{Service, Setup},
};

const EXAMPLES: &str = "\
EXAMPLES:
  Any client, plain or cluster-aware, finds every key of the cluster at one address:
    enroute state agent --listen 127.0.0.1:6380 --cluster 10.0.0.1:6379,10.0.0.2:6379
    redis-cli -p 6380 incr visits
    redis-benchmark -p 6380 -t get,set";

/// Serve the applications of one host: every key of the cluster at one address
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where clients connect
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6380")]
    listen: SocketAddr,

    /// Nodes of the cluster to begin with; the others are found through them
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',')]
    cluster: Vec<String>,

    /// Clients served at once
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = cache::at_least_one())]
    clients_max: usize,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let listen = arguments.listen;
    let cluster = super::addresses(&arguments.cluster)?;
    cache::raise_open_files();
    let listener = TcpListener::bind(listen).with_context(|| {
        format!("cannot listen on {listen}; give another address with --listen")
    })?;
    let end = EndSignal::flag()?;
    let seed = RandomState::new().hash_one(0u8);
    let setup = Setup { cluster: cluster.clone(), clients_max: arguments.clients_max, seed };
    let service = Service::new(listener, setup).context("cannot set up the sockets")?;
    let nodes = cluster.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    tracing::info!("the agent listens on {} -> {nodes}", service.address());
    service.run(&end).context("the agent cannot go on")
}
