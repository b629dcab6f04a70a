use std::{sync::Arc, time::Duration};

use super::super::{Clusters, Config, Feed};
use crate::{
    filter::resp::{Addresses, Node, Settings, namespace},
    key::Key,
    principal::{Finding, Principal, Proof, Standing},
    storage::{self, Answer, Given, Grant, MemoryStorage, Question, Storage},
};

const NOW: Duration = Duration::from_secs(1);
const STANDS: &[u8] = b"%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n";
const COMPLETE: &[u8] = b"=38\r\ntxt:cluster_state:ok\r\ncluster_size:3\r\n\r\n";

/// A cache with listeners for the nodes at ports 7000, 7001, ….
struct World {
    storage: MemoryStorage,
    nodes: Vec<(Arc<Settings>, Feed)>,
}

impl World {
    fn of(count: u16) -> Self {
        let (node, ours) = (|n: u16| format!("127.0.0.1:{}", 7_000 + n), |n| format!("cache:{n}"));
        let addresses = Arc::new(Addresses::new((0..count).map(|n| (node(n), ours(n)))));
        let (mut storage, mut clusters) =
            (MemoryStorage::new(storage::Config::default(), 0), Clusters::default());
        let mut listener = |number| {
            let settings = Arc::new(Settings {
                origin: "cluster shop".to_owned(),
                feed: true,
                clustered: true,
                node: Node::at(node(number)),
                addresses: Arc::clone(&addresses),
                ..Settings::default()
            });
            let config = Config::default();
            let feed = Feed::new(Arc::clone(&settings), config, &mut clusters, &mut storage);
            (settings, feed)
        };
        let nodes = (0..count).map(&mut listener).collect();
        Self { storage, nodes }
    }

    /// The node answers everything, and names these owners by their ports.
    fn stands(&mut self, node: usize, owners: &[u16]) {
        self.nodes[node].1.connected(NOW);
        self.hear(node, STANDS);
        self.names(node, owners);
    }

    fn names(&mut self, node: usize, owners: &[u16]) {
        self.hear(node, COMPLETE);
        let range = |port: &u16| format!("*3\r\n:0\r\n:1\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        let ranges: String = owners.iter().map(range).collect();
        self.hear(node, format!("*{}\r\n{ranges}", owners.len()).as_bytes());
    }

    fn hear(&mut self, node: usize, bytes: &[u8]) {
        self.nodes[node].1.receive(bytes, &mut self.storage, NOW).unwrap();
    }

    fn lost(&mut self, node: usize) {
        self.nodes[node].1.lost(&mut self.storage);
    }

    fn fills(&mut self) -> bool {
        let Some(lease) = self.lease() else { return false };
        let (key, principal) = (self.key(), principal());
        let (asked_at, expires_at) = (NOW, None);
        let (variant, answer) = (&b"get"[..], &b"$v"[..]);
        let given = Given { key, variant, principal: &principal, answer, asked_at, expires_at };
        self.storage.fill(lease, given, NOW).is_ok()
    }

    fn lease(&mut self) -> Option<crate::lease::Lease> {
        match self.read() {
            Answer::Miss(Ok(Grant { lease, .. })) => Some(lease),
            _ => None,
        }
    }

    fn read(&mut self) -> Answer {
        let principal = principal();
        let question = Question { key: self.key(), variant: b"get", principal: Some(&principal) };
        self.storage.read(question, None, NOW, |_| ())
    }

    fn key(&self) -> Key<'static> {
        Key::new(namespace(&self.nodes[0].0, 0), b"k")
    }
}

fn principal() -> Principal {
    let mut standing = Standing::new(NOW);
    standing.settle(Finding::Proven(Proof::Unrestricted), NOW);
    standing.receiver().expect("proven").clone()
}

/// Primaries 0 and 1, and a replica of 0.
fn standing() -> World {
    let mut world = World::of(3);
    for node in [0, 1] {
        assert!(world.lease().is_none(), "node {node} does not report yet");
        world.stands(node, &[7_000, 7_001]);
    }
    assert!(world.fills(), "the replica owns no slots");
    world.stands(2, &[7_000, 7_001]);
    assert_eq!(world.read(), Answer::Hit);
    world
}

#[test]
fn after_a_failover_the_former_primary_is_not_missed() {
    let mut world = standing();
    world.lost(0);
    assert!(world.lease().is_none());
    world.names(1, &[7_000, 7_001]);
    world.names(2, &[7_000, 7_001]);
    assert!(world.lease().is_none(), "it owns slots");
    world.names(2, &[7_002, 7_001]);
    assert!(world.lease().is_none(), "node 1 has not learned it");
    world.names(1, &[7_002, 7_001]);
    assert!(world.fills(), "what was stored before is gone");
    assert!(!world.nodes[0].0.node.reports() && world.nodes[2].0.node.reports());
    world.names(1, &[7_000, 7_001]);
    assert!(world.lease().is_none(), "it owns slots again");
    world.names(1, &[7_002, 7_001]);
    world.stands(0, &[7_002, 7_001]);
    assert!(world.fills() && world.nodes[0].0.node.reports());
}

#[test]
fn an_owner_without_a_listener_takes_the_place_of_no_feed() {
    let mut world = standing();
    world.lost(0);
    for node in [1, 2] {
        world.names(node, &[7_003, 7_001]);
    }
    assert!(world.lease().is_none());
    world.lost(2);
    world.names(1, &[7_002, 7_001]);
    assert!(world.lease().is_none(), "the owner has a listener, and its feed is down");
}

#[test]
fn what_nodes_said_before_a_loss_proves_nothing() {
    let mut world = standing();
    world.lost(2);
    assert!(world.lease().is_none(), "it may have been promoted");
    world.names(0, &[7_000, 7_001]);
    assert!(world.lease().is_none());
    world.names(1, &[7_000, 7_001]);
    assert!(world.fills());
}

#[test]
fn a_cluster_without_any_feed_is_closed() {
    let mut world = standing();
    (0..3).for_each(|node| world.lost(node));
    assert!(world.lease().is_none());
    world.stands(1, &[]);
    assert!(world.lease().is_none(), "a node without a cluster");
}
