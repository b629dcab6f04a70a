//! The state layer as a service: sockets and the clock around `state`.
//!
//! [`agent`] serves clients beside each host's applications. One thread, one epoll, the parts of
//! the cache's loop (`docs/decisions/0006-event-loops.md`): what all clients ask in one round
//! leaves for a node in one write. It leaves reports in the cluster itself
//! ([`state::agent::Reporter`]).
//!
//! [`placer`] carries out the rounds of [`state::placer`] and moves slots (`mover.rs`, `step.rs`)
//! while it holds the lease, many at once (`wave.rs`). [`hand`] has the manual commands. Commands
//! to nodes and their replies are [`state::query::Query`]s.
//!
//! **Read first:** `agent.rs`, then `placer.rs`.

pub mod agent;
mod bus;
mod cluster;
mod engine;
mod fence;
mod gate;
pub mod hand;
mod lease;
mod links;
mod mover;
pub mod placer;
mod seat;
mod step;
mod wave;

pub use cluster::Access;

use std::net::SocketAddr;

/// Default name of an agent: host name and port.
pub(crate) fn default_name(listens: SocketAddr) -> String {
    format!("{}:{}", machine(), listens.port())
}

/// Default name of a placer: host name and process id.
pub(crate) fn default_placer() -> String {
    format!("{}-{}", machine(), std::process::id())
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
