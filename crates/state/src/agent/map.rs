//! Known owners of slots: the paper's address cache.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
};

use wire::resp::{Limits, frame};

use crate::{
    members,
    slot::{SLOTS, Slot},
};

/// Maximum number of known nodes; a cluster has at most 1,000.
const NODES_MAX: usize = 1_024;
const NO_OWNER: u16 = u16::MAX;

/// The map.
#[derive(Debug)]
pub(super) struct Map {
    /// By number; `None` for removed nodes.
    nodes: Vec<Option<SocketAddr>>,
    /// Number of configured nodes, at the beginning; they stay.
    seeds: usize,
    owners: Box<[u16]>,
    /// The number of slots that each node owns.
    owned: Vec<u32>,
    /// Whether each node is a reachable primary, with or without slots, as of the last answer.
    primaries: Vec<bool>,
    /// Addresses of all members, including replicas, as of the last answer.
    members: HashSet<SocketAddr>,
    /// Incremented for every slot whose owner changes.
    version: u64,
}

impl Map {
    /// Without known owners; `seeds` are the nodes to ask.
    pub(super) fn new(seeds: &[SocketAddr]) -> Self {
        let owners = vec![NO_OWNER; SLOTS].into();
        let mut map = Self {
            nodes: Vec::new(),
            seeds: 0,
            owners,
            owned: Vec::new(),
            primaries: Vec::new(),
            members: HashSet::new(),
            version: 0,
        };
        for &seed in seeds {
            map.node(seed);
        }
        map.seeds = map.nodes.len();
        map
    }

    pub(super) fn owner(&self, slot: Slot) -> Option<usize> {
        let owner = self.owners.get(slot.number()).copied().filter(|&owner| owner != NO_OWNER);
        owner.map(usize::from)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn address(&self, node: usize) -> Option<SocketAddr> {
        self.nodes.get(node).copied().flatten()
    }

    /// All nodes.
    pub(super) fn known(&self) -> impl Iterator<Item = usize> + Clone {
        self.nodes.iter().enumerate().filter(|(_, known)| known.is_some()).map(|(node, _)| node)
    }

    /// Nodes that own slots.
    pub(super) fn owners(&self) -> impl Iterator<Item = usize> + Clone {
        self.owned.iter().enumerate().filter(|(_, owned)| **owned > 0).map(|(node, _)| node)
    }

    /// Nodes whose delay is measured: they own slots, or could.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let all = self.owned.iter().zip(&self.primaries).enumerate();
        all.filter(|(_, (owned, primary))| **owned > 0 || **primary).map(|(node, _)| node)
    }

    /// Addresses of the nodes that have keys or could, in order; none before the first answer.
    pub(super) fn primaries(&self) -> Vec<SocketAddr> {
        if self.members.is_empty() {
            return Vec::new();
        }
        let mut primaries: Vec<_> = self.places().filter_map(|node| self.address(node)).collect();
        primaries.sort_unstable();
        primaries
    }

    /// The number of the node at `address`; `None` if there are too many.
    pub(super) fn node(&mut self, address: SocketAddr) -> Option<usize> {
        let number = |wanted| self.nodes.iter().position(|&known| known == wanted);
        if let Some(node) = number(Some(address)) {
            return Some(node);
        }
        if let Some(free) = number(None) {
            self.nodes[free] = Some(address);
            return Some(free);
        }
        (self.nodes.len() < NODES_MAX).then(|| {
            self.nodes.push(Some(address));
            self.owned.push(0);
            self.primaries.push(false);
            self.nodes.len() - 1
        })
    }

    /// The number of the node at `address`, if the cluster has named it. A client can forge a
    /// redirection (a script that returns an error): the address in it gets neither requests nor
    /// the agent's password.
    pub(super) fn member(&mut self, address: SocketAddr) -> Option<usize> {
        let seeds = self.nodes.get(..self.seeds).unwrap_or_default();
        let is_known = seeds.contains(&Some(address)) || self.members.contains(&address);
        is_known.then(|| self.node(address)).flatten()
    }

    /// Drops nodes that are no longer primaries and are unused; their numbers are reused.
    pub(super) fn forget(&mut self, is_used: impl Fn(usize) -> bool) {
        for node in self.seeds..self.nodes.len() {
            if self.owned[node] == 0 && !self.primaries[node] && !is_used(node) {
                self.nodes[node] = None;
            }
        }
    }

    pub(super) fn set(&mut self, slot: Slot, node: usize) {
        if let Some(owner) = self.owners.get_mut(slot.number())
            && usize::from(*owner) != node
        {
            if let Some(owned) = self.owned.get_mut(usize::from(*owner)) {
                *owned -= 1;
            }
            if let Some(owned) = self.owned.get_mut(node) {
                *owned += 1;
            }
            *owner = node as u16;
            self.version += 1;
        }
    }

    /// Applies an answer to CLUSTER NODES of the node at `asked`; returns whether it named any
    /// slot.
    pub(super) fn learn(&mut self, answer: &[u8], asked: SocketAddr) -> bool {
        let Ok(Some((answer, _))) = frame::decode(answer, &Limits::default()) else { return false };
        let text = String::from_utf8_lossy(answer.payload().unwrap_or_default());
        let members = members::read(&text, asked);
        let mut named = false;
        if !members.is_empty() {
            self.members = members.iter().map(|member| member.address).collect();
        }
        self.primaries.fill(false);
        for member in members.iter().filter(|member| member.primary) {
            let Some(node) = self.node(member.address) else { continue };
            self.primaries[node] = !member.failing;
            for slot in member.owned() {
                self.set(slot, node);
                named = true;
            }
        }
        named
    }
}

/// The address in a node's name. An empty name means the node that was asked.
fn host_of(host: &[u8], asked: SocketAddr) -> Option<IpAddr> {
    match std::str::from_utf8(host).ok()? {
        "" | "?" => Some(asked.ip()),
        host => host.parse().ok(),
    }
}

/// Replies of a node instead of executing a command. Clients of a single Redis know none of these
/// errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot is that node's.
    Moved(Slot, SocketAddr),
    /// Send this one request to that node.
    Ask(SocketAddr),
    /// Retry: keys of the command are at two nodes.
    TryAgain,
    /// Retry: the cluster is incomplete, or the node knows no owner.
    Down,
    /// Redirection to something that is not an address, such as a host name.
    Elsewhere,
}

impl Redirect {
    /// Reads an answer, line end included, of the node at `asked`. Whatever begins with one of the
    /// words is one of these.
    pub(super) fn read(answer: &[u8], asked: SocketAddr) -> Option<Self> {
        let line = answer.strip_prefix(b"-")?;
        let word = line.split(u8::is_ascii_whitespace).next()?;
        match word {
            b"TRYAGAIN" => Some(Self::TryAgain),
            b"CLUSTERDOWN" => Some(Self::Down),
            b"MOVED" | b"ASK" => Some(Self::place(line, asked).unwrap_or(Self::Elsewhere)),
            _ => None,
        }
    }

    fn place(line: &[u8], asked: SocketAddr) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let (kind, slot, place) = (words.next()?, words.next()?, words.next()?);
        let slot = Slot::new(slot.parse().ok()?)?;
        let (host, port) = place.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = SocketAddr::new(host_of(host.as_bytes(), asked)?, port.parse().ok()?);
        Some(if kind == "MOVED" { Self::Moved(slot, address) } else { Self::Ask(address) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn slot(number: usize) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn an_answer_is_learnt() {
        let said = "a 127.0.0.1:1@2 master - 0 0 1 connected 0-1\n\
            b :2@3 myself,master - 0 0 2 connected 2-16383\n\
            c 127.0.0.9:9@10 slave b 0 0 2 connected\n";
        let answer = |text: &str| format!("${}\r\n{text}\r\n", text.len()).into_bytes();
        let mut map = Map::new(&[at(7)]);
        assert!(map.learn(&answer(said), at(2)));
        assert_eq!((map.owner(slot(1)), map.owner(slot(2))), (Some(1), Some(2)));
        assert_eq!((map.address(2), map.owners().collect()), (Some(at(2)), vec![1, 2]));
        let version = map.version();
        assert!(map.learn(&answer(said), at(2)));
        assert_eq!(map.version(), version);
        assert!(!map.learn(b"$0\r\n\r\n", at(7)) && !map.learn(b"-ERR no\r\n", at(7)));
    }

    #[test]
    fn a_primary_without_slots_is_a_place_while_it_can_be_reached() {
        let learnt = |map: &mut Map, flags: &str| {
            let text = format!(
                "a 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n\
                 b 127.0.0.1:2@3 {flags} - 0 0 0 connected\n"
            );
            map.learn(format!("${}\r\n{text}\r\n", text.len()).as_bytes(), at(1));
            map.places().collect::<Vec<_>>()
        };
        let mut map = Map::new(&[at(1)]);
        assert_eq!(learnt(&mut map, "master"), [0, 1]);
        assert_eq!(learnt(&mut map, "master,fail"), [0]);
        assert_eq!(learnt(&mut map, "slave"), [0]);
        assert_eq!(learnt(&mut map, "master"), [0, 1]);
        // The node has left, and the owners of slots do not answer.
        let left = "a 127.0.0.1:1@2 myself,master,fail - 0 0 1 connected 0-16383\n";
        map.learn(format!("${}\r\n{left}\r\n", left.len()).as_bytes(), at(1));
        assert_eq!(map.places().collect::<Vec<_>>(), [0]);
        assert_eq!(map.owners().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_node_that_is_gone_leaves_its_number_to_another() {
        let mut map = Map::new(&[at(1)]);
        let said = |port: u16| {
            let text = format!(
                "a 127.0.0.1:1@2 myself,slave b 0 0 1 connected\n\
                 b 127.0.0.1:{port}@3 master - 0 0 1 connected 7\n"
            );
            format!("${}\r\n{text}\r\n", text.len()).into_bytes()
        };
        // More nodes than there is room for; one of them is still connected.
        for port in 2..4 * NODES_MAX as u16 {
            assert!(map.learn(&said(port), at(1)));
            map.forget(|node| node == 1);
            assert_eq!(map.owner(slot(7)).and_then(|owner| map.address(owner)), Some(at(port)));
        }
        assert_eq!((map.address(0), map.address(1)), (Some(at(1)), Some(at(2))));
        assert!(map.known().count() <= 4);
    }

    #[test]
    fn redirections_are_read_and_nothing_else_is() {
        let read = |line: &str| Redirect::read(line.as_bytes(), at(7));
        assert_eq!(read("-MOVED 3 127.0.0.1:5\r\n"), Some(Redirect::Moved(slot(3), at(5))));
        assert_eq!(read("-MOVED 3 :5\r\n"), Some(Redirect::Moved(slot(3), at(5))));
        assert_eq!(read("-ASK 3 127.0.0.1:5\r\n"), Some(Redirect::Ask(at(5))));
        assert_eq!(read("-TRYAGAIN Multiple keys\r\n"), Some(Redirect::TryAgain));
        assert_eq!(read("-CLUSTERDOWN The cluster is down\r\n"), Some(Redirect::Down));
        for line in ["-MOVED 16384 127.0.0.1:5\r\n", "-MOVED x\r\n", "-ASK 3 host.example:5\r\n"] {
            assert_eq!(read(line), Some(Redirect::Elsewhere), "{line}");
        }
        for line in ["+MOVED 3 127.0.0.1:5\r\n", "-ERR MOVED\r\n", "-MOVEDX 3 127.0.0.1:5\r\n"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
