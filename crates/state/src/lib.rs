//! The state layer: each piece of network-function state on the host that uses it most.
//!
//! **What it is.** AnnaBellaDB's decisions (IFIP, 2020) for a Redis or
//! Valkey Cluster, as arithmetic: [`delays`] is the infrastructure monitor, [`accesses`] the access
//! pattern monitor, [`placement`] says which node should own which slot, and [`initiator`] when a
//! slot should move there, [`batch`] which move at once, [`migration`] how, by which [`scripts`], which leave a [`note`], and [`lease`] who may; [`replicas`] which are copied instead. Hosts are
//! where applications run, nodes are servers of the cluster; the unit of placement is the hash [`slot`].
//!
//! **What it is not.** No clock, no sockets, no cluster commands: tier 2 measures, reports, and
//! carries out the moves that leave as values. Not a client of the cluster either.
//!
//! **Read first:** [`placement::Problem`], what is decided; then [`initiator::Initiator`], when.
#![forbid(unsafe_code)]

pub mod accesses;
pub mod agent;
pub mod batch;
pub mod delays;
pub mod initiator;
pub mod lease;
pub mod members;
pub mod migration;
pub mod note;
pub mod placement;
pub mod replicas;
pub mod scripts;
pub mod slot;

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
