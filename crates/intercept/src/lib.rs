//! Transparent interception: the rules that divert connections on their way to a database into the
//! cache, with nothing changed at either end.
//!
//! **What it is.** A [`Plan`] defines what is diverted and how; [`Plan::rules`] renders it as an
//! nftables table, [`Plan::routing`] as the routing that TPROXY needs beside it; [`kernel`] applies
//! and removes both, and [`listed`] finds them in what the system tools list. The table is replaced
//! and deleted as a whole, by name, so that both may be repeated, and after a crash too.
//!
//! **What it is not.** It runs no tool: the caller runs `nft` and `ip`.
//!
//! What the cache itself sends is never diverted: connections that pass through are caught where
//! packets come in (`prerouting`), which those of this machine do not do; connections of this
//! machine are caught only for users other than the cache's.
//!
//! **Read first:** `rules.rs`. The cache's own part is `runtime/behind.rs` of `enroute`.
#![forbid(unsafe_code)]

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

pub mod kernel;
pub mod listed;
mod rules;

pub use rules::replacement_of;

/// How a connection is diverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The destination is rewritten; new connections are refused while no cache listens.
    Redirect,
    /// The packet is delivered unchanged; new connections go to the database while no cache
    /// listens.
    Tproxy,
}

/// Parts of a plan that do not fit together, and a valid alternative.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// TPROXY, and connections of this machine.
    #[error("mode tproxy diverts forwarded connections only; use --mode redirect with --local")]
    LocalTproxy,
    /// A redirection to loopback.
    #[error(
        "connections that arrive on an interface cannot be redirected to {to}: let the cache listen on \
         {anywhere}:{port} and set --to {anywhere}:{port}, or use --mode tproxy",
        port = .to.port()
    )]
    Loopback {
        /// Where to.
        to: SocketAddr,
        /// Every address of the same family.
        anywhere: &'static str,
    },
    /// The mark of unmarked packets.
    #[error("--mark: expected a number other than 0, which all unmarked packets have")]
    Mark,
    /// Two families of addresses.
    #[error(
        "--origin {origin} and --to {to} are of different families; divert each under its own --name"
    )]
    Families {
        /// Of the one.
        origin: Network,
        /// Of the other.
        to: SocketAddr,
    },
}

/// The diverted connections, and their new destination.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the table, which identifies it later.
    pub name: Name,
    /// How.
    pub mode: Mode,
    /// The port of the database that clients connect to.
    pub port: u16,
    /// Where the cache listens. Its family is the family of what is diverted.
    pub to: SocketAddr,
    /// Addresses of the database; any address but this machine's own if empty.
    pub origins: Vec<Network>,
    /// Where connections that pass through come in; every interface but loopback if empty.
    pub interfaces: Vec<Name>,
    /// Also, or instead, connections that programs on this machine make.
    pub local: Option<Local>,
    /// TPROXY: the mark of diverted packets, and the number of the routing table that takes them
    /// in.
    pub mark: u32,
}

/// Connections that programs on this machine make.
#[derive(Debug, Clone)]
pub struct Local {
    /// The user the cache runs as, by name or number: whose connections are left alone.
    pub cache_user: Name,
    /// Nothing that passes through is diverted.
    pub only: bool,
}

/// Default for the mark of diverted packets and the number of their routing table.
pub const MARK: u32 = 25_966;

impl Plan {
    /// Checks what no single value can.
    ///
    /// # Errors
    /// Conflicting options, and a valid alternative.
    pub fn check(&self) -> Result<(), Conflict> {
        let passes_through = !self.local.as_ref().is_some_and(|local| local.only);
        match self.mode {
            Mode::Tproxy if self.local.is_some() => return Err(Conflict::LocalTproxy),
            Mode::Redirect if passes_through && self.to.ip().is_loopback() => {
                return Err(Conflict::Loopback { to: self.to, anywhere: self.anywhere() });
            }
            Mode::Redirect | Mode::Tproxy => {}
        }
        if self.mark == 0 {
            return Err(Conflict::Mark);
        }
        let to = self.to;
        let other = |origin: &&Network| origin.address.is_ipv4() != to.is_ipv4();
        let other = self.origins.iter().find(other);
        other.map_or(Ok(()), |&origin| Err(Conflict::Families { origin, to }))
    }

    fn anywhere(&self) -> &'static str {
        if self.to.is_ipv4() { "0.0.0.0" } else { "[::]" }
    }
}

/// A name in a rule: of a table, an interface or a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Longest name: none of the three may be longer.
    const BYTES_MAX: usize = 31;

    /// A table's name, which begins with a letter.
    ///
    /// # Errors
    /// It does not, or is no name at all.
    pub fn of_table(text: &str) -> Result<Self, String> {
        if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(format!("`{text}` does not begin with a letter"));
        }
        text.parse()
    }

    /// As it stands in a rule.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.bytes().all(plain) {
            return Err(format!(
                "`{text}` is not a name: up to {} of A-Z a-z 0-9 _ - .",
                Self::BYTES_MAX
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// An address, or all that begin alike: `10.0.0.5`, `10.1.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: Option<u8>,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an address; write 10.0.0.5 or 10.1.0.0/16 (rules hold addresses, \
                 not host names)"
            )
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix.is_some_and(|prefix| prefix > bits) {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(out, "{}/{prefix}", self.address),
            None => self.address.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests;
