//! `enroute state`: each piece of state on the host that uses it most.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use platform::private_file;
use state::{
    agent::Login,
    slot::{SLOTS, Slot},
};

use crate::state::{Access, hand};

mod agent;
mod placer;

const EXAMPLES: &str = "\
EXAMPLES:
  An agent on each host:
    enroute state agent --listen 127.0.0.1:6380 --cluster 10.0.0.1:6379,10.0.0.2:6379
    redis-cli -p 6380 incr visits

  One placer or more, on any host:
    enroute state placer --cluster 10.0.0.1:6379

  Inspect, repair, move:
    enroute state status --cluster 10.0.0.1:6379
    enroute state why user:42 --cluster 10.0.0.1:6379
    enroute state doctor --cluster 10.0.0.1:6379
    enroute state move 866 --to 10.0.0.2:6379 --cluster 10.0.0.1:6379

  Print keys that share a slot and should not:
    enroute state advise-tags --cluster 10.0.0.1:6379";

/// Keep state on the host that uses it most, over a Redis or Valkey Cluster
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Run an agent: serve all keys of the cluster to the applications of one host
    Agent(agent::Arguments),
    /// Run a placer: move slots to the nodes where their accesses wait least
    Placer(placer::Arguments),
    /// Show the leading placer, the slots of each node and recent moves
    Status(Nodes),
    /// Show the owner of a slot, the hosts that use it, and what would move it
    Why(Why),
    /// Resume slot moves that a crash left open, and assign an owner to slots that have none
    Doctor(Doctor),
    /// Move slots to a given node
    Move(Relocation),
    /// List keys that share a slot but are used by different hosts
    AdviseTags(Nodes),
}

#[derive(Debug, Clone, Args)]
struct Nodes {
    /// Nodes to connect to first; the others are discovered through them. Comma-separated or
    /// repeated
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',')]
    cluster: Vec<String>,

    /// Username for the cluster nodes, the same at all of them
    #[arg(long, value_name = "NAME", default_value = "default", requires = "password_file")]
    user: String,

    /// File whose first line is the password of --user, the same at all nodes. Refused if other
    /// users of the machine can read it [default: no login]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct Why {
    /// Slot number (0 to 16383), or a key in the slot
    #[arg(value_name = "SLOT|KEY")]
    what: String,

    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Debug, Clone, Args)]
struct Doctor {
    /// Only report open slots and slots without an owner
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Debug, Clone, Args)]
struct Relocation {
    /// Slot numbers (0 to 16383), or keys in the slots
    #[arg(value_name = "SLOT|KEY", required = true)]
    slots: Vec<String>,

    /// Node that the slots are moved to
    #[arg(long, value_name = "HOST:PORT")]
    to: String,

    #[command(flatten)]
    nodes: Nodes,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // A connection for each node at the least.
    platform::open_files::raise();
    match &arguments.command {
        Command::Agent(arguments) => agent::run(arguments),
        Command::Placer(arguments) => placer::run(arguments),
        Command::Status(nodes) => {
            say(&hand::status(&nodes.access()?)?);
            Ok(())
        }
        Command::Why(why) => {
            say(&hand::why(&why.nodes.access()?, slot(&why.what))?);
            Ok(())
        }
        Command::Doctor(doctor) => mend(doctor),
        Command::Move(relocation) => {
            let slots: Vec<Slot> = relocation.slots.iter().map(|what| slot(what)).collect();
            let to = resolve("--to", &relocation.to)?;
            let to = *to.first().with_context(|| {
                format!("--to {}: the name resolves to no address", relocation.to)
            })?;
            let left = hand::relocate(&relocation.nodes.access()?, &slots, to)?;
            say(&format!("slots at {to} now: {} of {}", slots.len() - left.len(), slots.len()));
            if !left.is_empty() {
                bail!("{}", left.join("\n"));
            }
            Ok(())
        }
        Command::AdviseTags(nodes) => {
            let advice = hand::advise_tags(&nodes.access()?)?;
            if advice.is_empty() {
                say("no slot has keys that different hosts use most");
            }
            for line in &advice {
                say(line);
            }
            Ok(())
        }
    }
}

fn mend(doctor: &Doctor) -> anyhow::Result<()> {
    let (found, left) = hand::doctor(&doctor.nodes.access()?, doctor.dry_run)?;
    for line in &found {
        say(line);
    }
    if !left.is_empty() {
        bail!(
            "slots that are open or have no owner: {}{}",
            left.len(),
            if doctor.dry_run { "" } else { "; check that all nodes run, then try again" }
        );
    }
    say(if found.is_empty() { "no slot is open" } else { "repaired: no slot is open now" });
    Ok(())
}

impl Nodes {
    fn access(&self) -> anyhow::Result<Access> {
        let found = self.cluster.iter().map(|name| resolve("--cluster", name));
        let seeds = found.collect::<anyhow::Result<Vec<_>>>()?.concat();
        let Some(file) = &self.password_file else { return Ok(Access { seeds, login: None }) };
        let password = private_file::read_password(file)?;
        let login = Login { user: self.user.clone().into(), password: password.as_str().into() };
        Ok(Access { seeds, login: Some(login) })
    }
}

fn resolve(option: &str, name: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let found =
        name.to_socket_addrs().with_context(|| format!("{option} {name}: expected HOST:PORT"))?;
    Ok(found.collect())
}

/// A number below 16,384 is a slot; everything else is a key.
fn slot(what: &str) -> Slot {
    let number = what.parse().ok().filter(|number| *number < SLOTS);
    number.and_then(Slot::new).unwrap_or_else(|| Slot::of(what.as_bytes()))
}

#[expect(clippy::print_stdout, reason = "it is what was asked for")]
fn say(line: &str) {
    println!("{line}");
}
