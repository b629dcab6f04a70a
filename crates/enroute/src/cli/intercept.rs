//! `enroute intercept`: diverting connections into the cache.

use std::net::SocketAddr;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::{
    config::Scheme,
    intercept::{self, Local, MARK, Mode, Name, Network, Plan},
};

const EXAMPLES: &str = "\
EXAMPLES:
  On a router: what passes to a MongoDB at 10.0.0.5 goes through a cache listening on 0.0.0.0:27018.
  See the rules, apply them, see what they counted, take them away again:
    enroute intercept --protocol mongodb --origin 10.0.0.5 --to 0.0.0.0:27018 print
    enroute intercept --protocol mongodb --origin 10.0.0.5 --to 0.0.0.0:27018 apply
    enroute intercept status
    enroute intercept remove

  The same by TPROXY: no address is rewritten on the client's side:
    enroute intercept --protocol redis --mode tproxy --to 127.0.0.1:6380 apply

  Beside the application, on its own machine; the cache runs as user `enroute`:
    enroute intercept --protocol redis --to 127.0.0.1:6380 --local --cache-user enroute apply

The cache listens with `origin = \"mongodb://original\"`: behind each client stands what it wanted to
reach. While no cache listens, new connections pass directly with tproxy and fail with redirect;
`remove` lets them pass.
docs/guide/intercept.md tells more.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// What to do
    #[arg(value_enum)]
    action: Action,

    /// What the database speaks; its usual port is diverted unless --port says another
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    protocol: Option<Protocol>,

    /// Port of the database
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Where the cache listens, on this machine
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<SocketAddr>,

    /// Address of the database, or a network as 10.1.0.0/16; repeatable [default: any]
    #[arg(long, value_name = "ADDRESS")]
    origin: Vec<Network>,

    /// Interface that connections come in on; repeatable [default: any but loopback]
    #[arg(long, value_name = "NAME")]
    interface: Vec<Name>,

    /// Divert what programs on this machine connect to; with --interface, what passes through too
    #[arg(long, requires = "cache_user")]
    local: bool,

    /// The user the cache runs as, whose own connections are left alone
    #[arg(long, value_name = "USER", requires = "local")]
    cache_user: Option<Name>,

    /// How connections are diverted
    #[arg(long, value_enum, default_value = "redirect", value_name = "MODE")]
    mode: Mode,

    /// Name of the nftables table; each further interception needs one of its own
    #[arg(long, default_value = "enroute", value_parser = Name::of_table, value_name = "NAME")]
    name: Name,

    /// TPROXY: mark and routing table, each interception its own
    #[arg(long, default_value_t = MARK, value_name = "NUMBER")]
    mark: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    /// Show the rules; needs no rights
    Print,
    /// Divert from now on, in place of what was applied before
    Apply,
    /// Divert nothing any more
    Remove,
    /// Show what is applied and what it has counted
    Status,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Protocol {
    /// Port 27017
    Mongodb,
    /// Port 6379
    Redis,
}

impl From<Protocol> for Scheme {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Mongodb => Self::Mongodb,
            Protocol::Redis => Self::Redis,
        }
    }
}

impl Arguments {
    fn plan(&self) -> anyhow::Result<Plan> {
        let usual = self.protocol.map(|protocol| Scheme::from(protocol).port());
        let local = self
            .cache_user
            .clone()
            .map(|cache_user| Local { cache_user, only: self.interface.is_empty() });
        let plan = Plan {
            name: self.name.clone(),
            mode: self.mode,
            port: self.port.or(usual).context("say --protocol or --port of the database")?,
            to: self.to.context("say --to, where the cache listens, as 0.0.0.0:27018")?,
            origins: self.origin.clone(),
            interfaces: self.interface.clone(),
            local,
            mark: self.mark,
        };
        plan.check()?;
        Ok(plan)
    }
}

#[allow(clippy::print_stdout, reason = "rules and status are the output")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.action {
        Action::Print => {
            let plan = arguments.plan()?;
            print!("{}", plan.rules());
            for command in plan.routing() {
                println!("# beside these rules: ip {command}");
            }
            Ok(())
        }
        Action::Apply => {
            let plan = arguments.plan()?;
            intercept::apply(&plan)?;
            eprintln!("connections to port {} are diverted to {}", plan.port, plan.to);
            Ok(())
        }
        Action::Remove => intercept::remove(&arguments.name, arguments.mark),
        Action::Status => {
            print!("{}", intercept::status(&arguments.name, arguments.mark)?);
            Ok(())
        }
    }
}
