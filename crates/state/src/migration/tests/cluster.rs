//! A cluster of three nodes, reduced to one slot and the relevant rules of Redis's `cluster.c`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use super::chance::Chance;

mod steps;

pub(super) const NODES: u16 = 3;
const KEYS: u8 = 12;
/// Fewer than [`KEYS_MAX`], so that a slot takes more than one batch.
const BATCH: usize = 5;

/// The current turn, the turn of the latest batch, and its keys.
pub(super) type Noted = (u64, u64, Vec<Vec<u8>>);

#[derive(Debug, Default, Clone, Hash)]
pub(super) struct Server {
    pub(super) keys: BTreeMap<u8, u64>,
    pub(super) migrating: Option<Node>,
    pub(super) importing: Option<Node>,
    /// The node that it considers the owner, and since which epoch.
    pub(super) owner: (u64, u16),
    /// A node that it considered the owner has since denied that. The flag is kept when another
    /// owner is set.
    pub(super) disowned: bool,
    /// Maximum number of keys that it accepts.
    pub(super) room: Option<usize>,
    pub(super) note: Option<Noted>,
}

impl Server {
    /// A script can access the note at the owner and at an importing node.
    fn forget_note(&mut self, owns: bool) {
        self.note.take_if(|_| owns || self.importing.is_some());
    }

    fn has_room(&self, key: u8) -> bool {
        self.keys.contains_key(&key) || self.room.is_none_or(|room| self.keys.len() < room)
    }
}

/// A message in flight with a node's epoch and whether it owns the slot.
#[derive(Debug, Clone, Hash)]
pub(super) struct Said {
    pub(super) from: Node,
    pub(super) to: Node,
    pub(super) epoch: u64,
    pub(super) owns: bool,
    /// Unsolicited: it is not acknowledged, so its delivery is unknown.
    pub(super) unasked: bool,
}

#[derive(Debug, Clone, Hash)]
pub(super) struct Cluster {
    pub(super) servers: Vec<Server>,
    epoch: u64,
    turns: u64,
    /// Acknowledged writes of clients.
    pub(super) written: BTreeMap<u8, u64>,
    /// Replies of targets are lost occasionally, and sources crash.
    pub(super) loses: bool,
    /// Keys in flight to a node, whose sender no longer waits for the reply.
    pub(super) late: Vec<(Node, u8, u64)>,
    /// Steps in flight whose sender no longer waits for the replies.
    late_steps: Vec<(Node, Step)>,
    pub(super) said: Vec<Said>,
    /// A node that changes the owner of a slot waits for pending messages of the former owner.
    pub(super) waits: bool,
    /// No slot leaves a node before all nodes have received that node's broadcasts.
    pub(super) hears: bool,
    /// Targets execute [`Step::Settle`].
    pub(super) settles: bool,
    /// Clients delete keys, and read.
    pub(super) deletes: bool,
    /// A wrong value that a client read.
    pub(super) misread: bool,
    pub(super) chance: Chance,
}

/// The third of three nodes.
fn other(one: Node, two: Node) -> Node {
    Node((0..NODES).find(|&node| node != one.0 && node != two.0).expect("three"))
}

pub(super) fn slot() -> Slot {
    Slot::new(1).expect("a slot")
}

impl Cluster {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            servers: vec![Server::default(); NODES.into()],
            epoch: 0,
            turns: 0,
            written: BTreeMap::new(),
            loses: true,
            late: Vec::new(),
            late_steps: Vec::new(),
            said: Vec::new(),
            waits: true,
            hears: true,
            settles: true,
            deletes: false,
            misread: false,
            chance: Chance::of_seed(seed),
        }
    }

    pub(super) fn at(&mut self, node: Node) -> &mut Server {
        &mut self.servers[usize::from(node.0)]
    }

    /// The owner: of the nodes that claim it, the one with the latest epoch.
    pub(super) fn latest(&self) -> Option<(u64, u16)> {
        let own = |(node, server): (usize, &Server)| {
            (usize::from(server.owner.1) == node).then_some(server.owner)
        };
        self.servers.iter().enumerate().filter_map(own).max()
    }

    pub(super) fn owner(&self) -> Option<Node> {
        self.latest().map(|(_, node)| Node(node))
    }

    /// Delivers messages in flight.
    fn arrive(&mut self) {
        if !self.late.is_empty() && self.chance.one_in(3) {
            self.arrives_late(0);
        }
        if !self.late_steps.is_empty() && self.chance.one_in(3) {
            let (node, step) = self.late_steps.remove(0);
            let is_open = self.at(node).migrating.is_some();
            let arrives = match step {
                // It opens a closed slot again; the others carry no turn.
                Step::Turn { .. } => is_open,
                Step::Settle { .. } | Step::Send { .. } | Step::Move { .. } => true,
                _ => false,
            };
            if arrives {
                let _unheard = self.run(node, &step);
            }
        }
    }

    /// A node announces whether it owns the slot, or another node receives an announcement.
    fn gossip(&mut self) {
        let from = self.chance.below(NODES);
        let to = (from + 1 + self.chance.below(NODES - 1)) % NODES;
        let (epoch, owner) = self.at(Node(from)).owner;
        let asked = self.said.iter().filter(|said| !said.unasked).count();
        if asked < 2 && self.chance.one_in(2) {
            let (from, to, owns) = (Node(from), Node(to), owner == from);
            self.said.push(Said { from, to, epoch, owns, unasked: false });
        } else if !self.said.is_empty() {
            let at = self.chance.below(self.said.len());
            let said = self.said.remove(at);
            self.hear(&said);
        }
    }

    /// Delivers a key in flight.
    pub(super) fn arrives_late(&mut self, at: usize) {
        let (to, key, value) = self.late.remove(at);
        let server = self.at(to);
        if (server.importing.is_some() || server.owner.1 == to.0) && server.has_room(key) {
            server.keys.insert(key, value);
        }
    }

    /// A node broadcasts that it owns the slot.
    fn tell(&mut self, from: Node) {
        let epoch = self.at(from).owner.0;
        let others = (0..NODES).map(Node).filter(|&to| to != from);
        self.said.extend(others.map(|to| Said { from, to, epoch, owns: true, unasked: true }));
    }

    /// Waits until no request or reply between nodes is in flight.
    fn wait(&mut self) {
        if self.waits {
            self.arrives(|said| !said.unasked);
        }
    }

    /// Waits until all nodes have received the broadcasts of `from`.
    pub(super) fn heard(&mut self, from: Node) {
        if self.hears {
            self.arrives(|said| said.unasked && said.from == from);
        }
    }

    fn arrives(&mut self, which: impl Fn(&Said) -> bool) {
        let (heard, rest) = std::mem::take(&mut self.said).into_iter().partition(which);
        self.said = rest;
        heard.iter().for_each(|said| self.hear(said));
    }

    pub(super) fn hear(&mut self, &Said { from, to, epoch, owns, .. }: &Said) {
        let server = self.at(to);
        let known = server.owner.1 == from.0;
        if known {
            server.disowned |= !owns;
        } else if owns && server.importing.is_none() && (server.disowned || server.owner.0 < epoch)
        {
            if server.owner.1 == to.0 {
                server.keys.clear();
            }
            (server.owner, server.migrating, server.disowned) = ((epoch, from.0), None, false);
        }
    }

    /// The node that serves a request for a key after all redirections, if any.
    fn serves(&mut self, key: u8) -> Option<Node> {
        let first = Node(self.chance.below(NODES));
        self.serves_from(first, key)
    }

    /// As `serves`, for a client that begins at `node`.
    pub(super) fn serves_from(&mut self, mut node: Node, key: u8) -> Option<Node> {
        for _ in 0..4 {
            let server = self.at(node);
            if server.owner.1 != node.0 {
                node = Node(server.owner.1);
                continue;
            }
            return match server.migrating {
                Some(to) if !server.keys.contains_key(&key) => {
                    let target = self.at(to);
                    (target.importing == Some(node) || target.owner.1 == to.0).then_some(to)
                }
                _ => Some(node),
            };
        }
        None
    }

    /// A client writes a key.
    pub(super) fn write(&mut self, value: u64) {
        let key = self.chance.below(KEYS);
        if let Some(node) = self.serves(key)
            && self.at(node).has_room(key)
        {
            self.at(node).keys.insert(key, value);
            self.written.insert(key, value);
        }
    }

    /// A client deletes a key, another reads one.
    fn delete_and_read(&mut self) {
        let key = self.chance.below(KEYS);
        if self.chance.one_in(2)
            && let Some(node) = self.serves(key)
        {
            self.at(node).keys.remove(&key);
            self.written.remove(&key);
        }
        let key = self.chance.below(KEYS);
        if let Some(node) = self.serves(key) {
            let found = self.at(node).keys.get(&key).copied();
            self.misread |= found != self.written.get(&key).copied();
        }
    }

    pub(super) fn claims(&self) -> Vec<(Node, Claim)> {
        let owner = self.owner();
        let claim = |(number, server): (usize, &Server)| {
            let node = Node(number as u16);
            let keys = server.keys.len() as u64;
            let claim = match (server.migrating, server.importing) {
                (Some(to), _) if owner.is_some() => Claim::Migrating(to),
                (_, Some(from)) => Claim::Importing(from, keys),
                _ if owner.is_none() => Claim::Holding(keys),
                _ if owner != Some(node) && (keys > 0 || server.note.is_some()) => {
                    Claim::Holding(keys)
                }
                _ => return None,
            };
            Some((node, claim))
        };
        self.servers.iter().enumerate().filter_map(claim).collect()
    }

    /// Resumes whatever is open, as a placer does after its start.
    pub(super) fn mend(&mut self) {
        for _ in 0..40 {
            let turn = self.turn();
            let Some(mut migration) = resume(slot(), self.owner(), &self.claims(), turn) else {
                return;
            };
            self.heard(migration.way().0);
            self.drive(&mut migration, 0);
            for _ in 0..6 {
                self.gossip();
            }
        }
        panic!("still open: {:?} {:?}", self.owner(), self.claims());
    }

    /// A turn later than all others.
    pub(super) fn turn(&mut self) -> u64 {
        self.turns += 1_000_000;
        self.turns
    }

    /// Runs a migration, with faults in `trouble` percent of its steps. With faults, it sometimes
    /// stops in the middle.
    pub(super) fn drive(&mut self, migration: &mut Migration, trouble: u32) {
        let mut now = Duration::ZERO;
        while migration.end().is_none() {
            now += Duration::from_secs(2);
            let Some((node, step)) = migration.ready(now) else { continue };
            let wrong = self.chance.below(100);
            let outcome = match wrong {
                _ if wrong >= trouble => self.run(node, &step),
                _ if wrong.is_multiple_of(4) => return,
                _ if wrong % 4 == 1 => {
                    self.late_steps.push((node, step));
                    Outcome::Failed
                }
                _ => {
                    let _lost = self.run(node, &step);
                    Outcome::Failed
                }
            };
            migration.step(outcome, now);
            let value = now.as_secs() + (self.chance.below(1_000_000) << 20);
            self.write(value);
            if self.deletes {
                self.delete_and_read();
            }
            self.arrive();
            if trouble > 0 && self.chance.one_in(4) {
                self.gossip();
            }
        }
    }

    /// Whether the owner has all written data.
    pub(super) fn is_whole(&self) -> bool {
        let owner = self.owner().and_then(|owner| self.servers.get(usize::from(owner.0)));
        owner.is_some_and(|owner| owner.keys == self.written)
    }

    pub(super) fn check(&self, seed: u64) {
        assert!(!self.misread, "seed {seed}");
        let owner = self.owner().unwrap_or_else(|| panic!("seed {seed}: the slot has no owner"));
        let owner = usize::from(owner.0);
        assert_eq!(self.servers[owner].keys, self.written, "seed {seed}");
        let holding: BTreeSet<usize> =
            (0..3).filter(|&node| !self.servers[node].keys.is_empty()).collect();
        assert!(holding.is_subset(&BTreeSet::from([owner])), "seed {seed}: {holding:?}");
    }
}
