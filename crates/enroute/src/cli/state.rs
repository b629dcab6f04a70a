//! `enroute state`: each piece of state on the host that uses it most.

use clap::{Args, Subcommand};

mod agent;

const EXAMPLES: &str = "\
EXAMPLES:
  Beside the applications of each host:
    enroute state agent --listen 127.0.0.1:6380 --cluster 10.0.0.1:6379,10.0.0.2:6379
    redis-cli -p 6380 incr visits";

/// Keep each piece of state on the host that uses it most, over a Redis or Valkey Cluster
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Serve the applications of one host: every key of the cluster at one address
    Agent(agent::Arguments),
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Agent(arguments) => agent::run(arguments),
    }
}

/// Nodes as they were typed: `HOST:PORT`, several separated by commas.
fn addresses(text: &[String]) -> anyhow::Result<Vec<std::net::SocketAddr>> {
    use std::net::ToSocketAddrs;

    use anyhow::Context;
    let mut addresses = Vec::new();
    for name in text {
        let found =
            name.to_socket_addrs().with_context(|| format!("--cluster {name}: no such host"))?;
        addresses.extend(found);
    }
    Ok(addresses)
}
