//! `enroute state`: each piece of state on the host that uses it most.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use state::{
    agent::Login,
    slot::{SLOTS, Slot},
};

use crate::{
    private_file,
    state::{Access, hand},
};

mod agent;
mod placer;

const EXAMPLES: &str = "\
EXAMPLES:
  Beside the applications of each host:
    enroute state agent --listen 127.0.0.1:6380 --cluster 10.0.0.1:6379,10.0.0.2:6379
    redis-cli -p 6380 incr visits

  Anywhere, once or several times:
    enroute state placer --cluster 10.0.0.1:6379

  Ask, mend, move:
    enroute state status --cluster 10.0.0.1:6379
    enroute state why user:42 --cluster 10.0.0.1:6379
    enroute state doctor --cluster 10.0.0.1:6379
    enroute state move 866 --to 10.0.0.2:6379 --cluster 10.0.0.1:6379";

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
    /// Move slots to the nodes where their accesses wait least
    Placer(placer::Arguments),
    /// Say who places, who owns how much, and what moved
    Status(Nodes),
    /// Say where a key or slot is, who uses it, and what would move it
    Why(Why),
    /// Find slots that a crash left open, and end their moves
    Doctor(Doctor),
    /// Move slots by hand
    Move(Relocation),
    /// Say which keys share a slot although different hosts use them
    AdviseTags(Nodes),
}

#[derive(Debug, Clone, Args)]
struct Nodes {
    /// Nodes of the cluster to begin with; the others are found through them
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',')]
    cluster: Vec<String>,

    /// Whom to be at the nodes, with --password-file
    #[arg(long, value_name = "NAME", default_value = "default", requires = "password_file")]
    user: String,

    /// A file whose first line is the password of --user, the same at all nodes. Refused if other users of the
    /// machine can read the file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct Why {
    /// A slot's number, or a key
    #[arg(value_name = "SLOT|KEY")]
    what: String,

    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Debug, Clone, Args)]
struct Doctor {
    /// Say what is open and leave it so
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Debug, Clone, Args)]
struct Relocation {
    /// Slots' numbers, or keys in them
    #[arg(value_name = "SLOT|KEY", required = true)]
    slots: Vec<String>,

    /// The node that is to own them
    #[arg(long, value_name = "HOST:PORT")]
    to: String,

    #[command(flatten)]
    nodes: Nodes,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // A connection for each node at the least.
    super::cache::raise_open_files();
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
            let to = *to.first().with_context(|| format!("--to {}: no address", relocation.to))?;
            let left = hand::relocate(&relocation.nodes.access()?, &slots, to)?;
            if !left.is_empty() {
                bail!("{}", left.join("\n"));
            }
            Ok(())
        }
        Command::AdviseTags(nodes) => {
            for line in hand::advise_tags(&nodes.access()?)? {
                say(&line);
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
            "{} slots are open{}",
            left.len(),
            if doctor.dry_run { "" } else { " still; is a node down?" }
        );
    }
    say(if found.is_empty() { "no slot is open" } else { "mended: no slot is open any more" });
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
