//! The feeds of one cluster: whether every node that owns slots reports its writes.
//!
//! A feed that is lost closes the entries of the cluster, because its node may go on to accept
//! writes. They are opened again once it is re-established, or once the open feeds prove that they
//! report every write without it: since the loss each of their nodes has named the owners of the
//! slots, and each owner has an open feed. So after a failover the former primary is not missed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use smallvec::SmallVec;
use tracing::{info, warn};

use crate::{
    filter::resp::{FEED_DATABASES, Owner, Settings, namespace},
    lease::Outcome,
    storage::{Storage, Write},
};

/// The feeds of each cluster, by its name.
#[derive(Debug, Default)]
pub struct Clusters(BTreeMap<String, Arc<Mutex<Coverage>>>);

impl Clusters {
    pub(super) fn of(&mut self, cluster: &str) -> Arc<Mutex<Coverage>> {
        Arc::clone(self.0.entry(cluster.to_owned()).or_default())
    }
}

/// The feeds of the nodes of one cluster.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    nodes: Vec<Node>,
    /// Closed databases of the cluster; empty while all writes are reported.
    closed: SmallVec<[Write; 16]>,
    /// The owner without a listener that was logged last.
    told: Option<String>,
}

#[derive(Debug)]
struct Node {
    address: String,
    /// The listener for it.
    listener: Option<Owner>,
    is_open: bool,
    /// The owners of the slots, as it named them since a feed was lost; `None` until then.
    owners: Option<Vec<Owner>>,
}

/// What the feeds of a cluster report together.
enum Covered {
    Everything,
    /// A feed is missing that may have writes to report.
    Not,
    /// This node owns slots, and no listener has it as its origin.
    Stranger(String),
}

impl Coverage {
    /// Adds the node of a listener, whose feed is not connected. Returns its number.
    pub(super) fn add<S: Storage>(&mut self, settings: &Settings, storage: &mut S) -> usize {
        let address = settings.node.address().to_owned();
        let listener = settings.addresses.listener(&address);
        self.nodes.push(Node { address, listener, is_open: false, owners: None });
        self.judge(settings, storage);
        self.nodes.len() - 1
    }

    /// The feed of a node is established.
    pub(super) fn opened<S: Storage>(
        &mut self,
        number: usize,
        settings: &Settings,
        storage: &mut S,
    ) {
        if let Some(node) = self.nodes.get_mut(number) {
            node.is_open = true;
        }
        settings.node.report(true);
        self.judge(settings, storage);
    }

    /// The feed of a node is lost: what the nodes said about owners may not be true any more.
    pub(super) fn lost<S: Storage>(&mut self, number: usize, settings: &Settings, storage: &mut S) {
        // First: nothing that is read at this node from here on is stored.
        settings.node.report(false);
        let Some(node) = self.nodes.get_mut(number) else { return };
        if std::mem::take(&mut node.is_open) {
            self.nodes.iter_mut().for_each(|node| node.owners = None);
        }
        self.judge(settings, storage);
    }

    /// A node named the owners of the slots.
    pub(super) fn owned<S: Storage>(
        &mut self,
        number: usize,
        owners: Vec<Owner>,
        settings: &Settings,
        storage: &mut S,
    ) {
        if let Some(node) = self.nodes.get_mut(number) {
            node.owners = Some(owners);
        }
        self.judge(settings, storage);
    }

    /// Opens or closes the entries of the cluster.
    fn judge<S: Storage>(&mut self, settings: &Settings, storage: &mut S) {
        let covered = self.covered();
        match (&covered, self.closed.is_empty()) {
            (Covered::Everything, false) => {
                for write in std::mem::take(&mut self.closed) {
                    storage.write_settled(write, Outcome::Applied);
                }
                self.tell_missing(settings);
            }
            (Covered::Not | Covered::Stranger(_), true) => {
                for database in 0..FEED_DATABASES {
                    let whole = namespace(settings, database).whole_database();
                    self.closed.push(storage.write_sent(whole.into()));
                }
            }
            _ => {}
        }
        match covered {
            Covered::Everything => self.told = None,
            Covered::Not => {}
            Covered::Stranger(node) if self.told.as_ref() == Some(&node) => {}
            Covered::Stranger(node) => {
                warn!(
                    origin = settings.origin,
                    node,
                    "nothing of the cluster is cached: this node owns slots, and no listener has it \
                     as its origin; add a [[listener]] for it and restart the cache"
                );
                self.told = Some(node);
            }
        }
    }

    fn covered(&self) -> Covered {
        if self.nodes.iter().all(|node| node.is_open) {
            return Covered::Everything;
        }
        let is_open = |owner: &Owner| {
            self.nodes.iter().any(|node| node.is_open && node.listener.as_ref() == Some(owner))
        };
        let mut covered = Covered::Not;
        for node in self.nodes.iter().filter(|node| node.is_open) {
            let Some(owners) = node.owners.as_ref().filter(|owners| !owners.is_empty()) else {
                return Covered::Not;
            };
            match owners.iter().find(|owner| !is_open(owner)) {
                None => covered = Covered::Everything,
                Some(Owner::Stranger(node)) => return Covered::Stranger(node.clone()),
                Some(Owner::Listener(..)) => return Covered::Not,
            }
        }
        covered
    }

    fn tell_missing(&self, settings: &Settings) {
        for node in self.nodes.iter().filter(|node| !node.is_open) {
            info!(
                origin = settings.origin,
                node = node.address,
                "the cluster is cached without the feed of this node: it owns no slots"
            );
        }
    }
}

#[cfg(test)]
mod tests;
