//! The state layer: each piece of network-function state on the host that uses it most.
//!
//! **What it is.** AnnaBellaDB's decisions (IFIP, 2020) for a Redis or Valkey Cluster, as
//! arithmetic: [`delays`] is the infrastructure monitor, [`accesses`] the access pattern monitor,
//! [`placement`] computes which node should own which slot, [`initiator`] when a slot should move
//! there, [`moves`] what bounds moves, [`batch`] which move at once, [`migration`] how, and
//! [`lease`] which placer may move them; [`balance`] decides which slots move where load is to be
//! even instead, and [`replicas`] selects the slots that are copied. [`placer`] joins these into
//! rounds over a [`view`] of the cluster, from the [`report`]s of agents. [`agent`] routes the
//! requests of applications. Hosts are where applications run, nodes are servers of the cluster;
//! the unit of placement is the hash [`slot`].
//!
//! It also contains all commands to the nodes and the meaning of their replies: each command is a
//! [`query`] beside the model it belongs to ([`members`], [`usage`], [`steps`] with its [`scripts`]
//! and [`note`], [`engine`], [`lease::key`], [`fence`], [`bus`]). The scripts are tested as they
//! are sent, against the model's steps.
//!
//! **What it is not.** No clock, no sockets, no threads: tier 2 measures, reports, sends the
//! queries that this crate returns as values, and passes the replies back.
//!
//! **Read first:** [`placement::Problem`], what is decided; then [`initiator::Initiator`], when.
#![forbid(unsafe_code)]

pub mod accesses;
pub mod advice;
pub mod agent;
pub mod balance;
pub mod batch;
pub mod bus;
mod clients;
pub mod delays;
pub mod engine;
pub mod fence;
pub mod initiator;
pub mod lease;
pub mod members;
pub mod migration;
pub mod moves;
pub mod note;
pub mod placement;
pub mod placer;
pub mod query;
pub mod replicas;
pub mod report;
pub mod scripts;
pub mod slot;
pub mod steps;
pub mod usage;
pub mod view;

/// A host where applications run, by its number among the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u16);

/// A node of the cluster, by its number among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u16);

impl Host {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Node {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}
