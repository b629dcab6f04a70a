//! `enroute intercept`: diverting connections into the cache.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use intercept::{Local, MARK, Name, Network, Plan, kernel};
use platform::tool;
use rustix::thread::CapabilitySet;

use crate::config::Scheme;

const EXAMPLES: &str = "\
EXAMPLES:
  On a router: divert connections to the MongoDB at 10.0.0.5 to a cache that listens on
  0.0.0.0:27018. Print the rules, apply them, show their counters, remove them:
    enroute intercept --protocol mongodb --origin 10.0.0.5 --to 0.0.0.0:27018 print
    enroute intercept --protocol mongodb --origin 10.0.0.5 --to 0.0.0.0:27018 apply
    enroute intercept status
    enroute intercept remove

  By TPROXY, which rewrites no address:
    enroute intercept --protocol redis --mode tproxy --to 127.0.0.1:6380 apply

  On the machine of the application; the cache runs as user `enroute`:
    enroute intercept --protocol redis --to 127.0.0.1:6380 --local --cache-user enroute apply

Set `origin = \"mongodb://original\"` in the configuration of the cache: the origin of each client is
then its original destination. While no cache listens, new connections go directly to the database
in mode tproxy and are refused in mode redirect; `remove` ends the diversion. See
docs/guide/intercept.md.";

/// How a connection is diverted.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Rewrite the destination; new connections are refused while no cache listens
    Redirect,
    /// Deliver the packet unchanged; new connections go to the database while no cache listens
    Tproxy,
}

impl From<Mode> for intercept::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Redirect => Self::Redirect,
            Mode::Tproxy => Self::Tproxy,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Action
    #[arg(value_enum)]
    action: Action,

    /// Protocol of the database; selects the port unless --port is given
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    protocol: Option<Protocol>,

    /// TCP port of the database [default: 27017 for mongodb, 6379 for redis]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Address that the cache listens on, on this machine
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT")]
    to: Option<SocketAddr>,

    /// Divert only connections to this address or network, for example 10.1.0.0/16. Repeatable
    /// [default: any]
    #[arg(long, value_name = "ADDRESS")]
    origin: Vec<Network>,

    /// Divert only connections that arrive on this interface. Repeatable [default: any except
    /// loopback]
    #[arg(long, value_name = "NAME")]
    interface: Vec<Name>,

    /// Divert connections of programs on this machine; together with --interface, forwarded
    /// connections too. Mode redirect only
    #[arg(long, requires = "cache_user")]
    local: bool,

    /// User that the cache runs as; connections of this user are not diverted
    #[arg(long, value_name = "USER", requires = "local")]
    cache_user: Option<Name>,

    /// Method of diverting connections
    #[arg(long, value_enum, default_value = "redirect", value_name = "MODE")]
    mode: Mode,

    /// Name of the nftables table; each simultaneous interception needs its own
    #[arg(long, default_value = "enroute", value_parser = Name::of_table, value_name = "NAME")]
    name: Name,

    /// Mode tproxy: packet mark and number of the routing table; each simultaneous interception
    /// needs its own
    #[arg(long, default_value_t = MARK, value_name = "NUMBER")]
    mark: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    /// Print the rules; needs no privileges
    Print,
    /// Apply the rules, replacing those applied before under the same name
    Apply,
    /// Remove the rules
    Remove,
    /// Show the applied rules and their counters
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
            mode: self.mode.into(),
            port: self.port.or(usual).context("expected --protocol or --port")?,
            to: self.to.context(
                "expected --to, the address that the cache listens on, for example 0.0.0.0:27018",
            )?,
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
                println!("# in addition to these rules: ip {command}");
            }
            Ok(())
        }
        Action::Apply => {
            let plan = arguments.plan()?;
            require_rights()?;
            kernel::apply(&plan, &tool::run)?;
            eprintln!("connections to port {} are diverted to {}", plan.port, plan.to);
            Ok(())
        }
        Action::Remove => {
            require_rights()?;
            kernel::remove(&arguments.name, arguments.mark, &tool::run)
        }
        Action::Status => {
            require_rights()?;
            print!("{}", kernel::status(&arguments.name, arguments.mark, &tool::run)?);
            Ok(())
        }
    }
}

fn require_rights() -> anyhow::Result<()> {
    let rights = rustix::thread::capabilities(None)
        .context("cannot read the capabilities of this process")?;
    ensure!(
        rights.effective.contains(CapabilitySet::NET_ADMIN),
        "apply, remove and status need root or CAP_NET_ADMIN; `print` shows the rules without \
         privileges"
    );
    Ok(())
}
