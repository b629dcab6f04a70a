//! A cluster of three, reduced to one slot and the rules of Redis's `cluster.c` that matter to it.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const NODES: u16 = 3;

#[derive(Debug, Default, Clone)]
struct Server {
    keys: BTreeMap<u8, u64>,
    migrating: Option<Node>,
    importing: Option<Node>,
    /// Whom it takes for the owner, and since which epoch.
    owner: (u64, u16),
    /// It takes no more keys than these.
    room: Option<usize>,
}

impl Server {
    fn has_room(&self, key: u8) -> bool {
        self.keys.contains_key(&key) || self.room.is_none_or(|room| self.keys.len() < room)
    }
}

struct Cluster {
    servers: Vec<Server>,
    epoch: u64,
    /// What clients were told is written.
    written: BTreeMap<u8, u64>,
    /// Acknowledgements of keys that have moved are lost now and then.
    loses: bool,
    random: Pcg64,
}

fn slot() -> Slot {
    Slot::new(1).expect("a slot")
}

impl Cluster {
    fn new(seed: u64) -> Self {
        Self {
            servers: vec![Server::default(); NODES.into()],
            epoch: 0,
            written: BTreeMap::new(),
            loses: true,
            random: Pcg64::seed_from_u64(seed),
        }
    }

    fn at(&mut self, node: Node) -> &mut Server {
        &mut self.servers[usize::from(node.0)]
    }

    fn owner(&self) -> Node {
        Node(self.servers.iter().map(|server| server.owner).max().expect("three").1)
    }

    /// What the server does when it is told; nothing if it refuses.
    fn run(&mut self, node: Node, step: &Step) -> Outcome {
        let owns = self.at(node).owner.1 == node.0;
        match step {
            Step::Import { from } if !owns => self.at(node).importing = Some(*from),
            Step::Migrate { to } if owns => self.at(node).migrating = Some(*to),
            Step::Keys => {
                let keys = self.at(node).keys.keys().take(KEYS_MAX).map(|&key| vec![key]);
                return Outcome::Keys(keys.collect());
            }
            Step::Move { to, keys } => {
                for key in keys {
                    // Its acknowledgement may be lost: then both have it, for a while.
                    if let Some(&value) = self.at(node).keys.get(&key[0]) {
                        if !self.at(*to).has_room(key[0]) {
                            return Outcome::Refused("OOM".to_owned());
                        }
                        self.at(*to).keys.insert(key[0], value);
                        if self.loses && self.random.random_range(0..6) == 0 {
                            return Outcome::Failed;
                        }
                        self.at(node).keys.remove(&key[0]);
                    }
                }
            }
            Step::Own { owner } if *owner == node => {
                if self.at(node).importing.take().is_some() || owns {
                    self.epoch += 1;
                    self.at(node).owner = (self.epoch, node.0);
                } else {
                    return Outcome::Failed;
                }
            }
            Step::Own { owner } => {
                if owns && !self.at(node).keys.is_empty() {
                    return Outcome::Failed;
                }
                let epoch = self.at(*owner).owner.0.max(self.at(node).owner.0);
                self.at(node).owner = (epoch, owner.0);
                self.at(node).migrating = None;
            }
            Step::Read { keys, .. } if !owns => {
                self.at(node).importing = None;
                let value = |key: &Vec<u8>| {
                    let value = self.servers[usize::from(node.0)].keys.get(&key[0])?;
                    let (key, value) = (key.clone(), value.to_le_bytes().to_vec());
                    Some(Value { key, value, expires_ms: 0 })
                };
                return Outcome::Values(keys.iter().filter_map(value).collect());
            }
            Step::Restore { to, values } if owns => {
                for Value { key, value, .. } in values {
                    let value = u64::from_le_bytes(value[..].try_into().expect("eight bytes"));
                    self.at(node).keys.entry(key[0]).or_insert(value);
                }
                self.at(node).migrating = Some(*to);
            }
            Step::Drop { from, keys } if !owns => {
                self.at(node).importing = Some(*from);
                self.at(node).keys.retain(|key, _| !keys.contains(&vec![*key]));
            }
            Step::Stable => (self.at(node).migrating, self.at(node).importing) = (None, None),
            Step::Import { .. }
            | Step::Migrate { .. }
            | Step::Read { .. }
            | Step::Restore { .. }
            | Step::Drop { .. } => return Outcome::Failed,
        }
        Outcome::Done
    }

    /// A node hears of the owner of the latest epoch.
    fn gossip(&mut self) {
        let latest = self.servers.iter().map(|server| server.owner).max().expect("three");
        let node = self.random.random_range(0..NODES);
        let server = self.at(Node(node));
        if server.owner < latest {
            server.owner = latest;
            server.migrating = None;
        }
    }

    /// A client writes a key, and follows the redirections there are.
    fn write(&mut self, value: u64) {
        let key = self.random.random_range(0..12);
        let mut node = Node(self.random.random_range(0..NODES));
        for _ in 0..4 {
            let server = self.at(node);
            if server.owner.1 != node.0 {
                node = Node(server.owner.1);
                continue;
            }
            match server.migrating {
                Some(to) if !server.keys.contains_key(&key) => {
                    let target = self.at(to);
                    let serves = target.importing == Some(node) || target.owner.1 == to.0;
                    if serves && target.has_room(key) {
                        self.at(to).keys.insert(key, value);
                        self.written.insert(key, value);
                    }
                }
                _ if !server.has_room(key) => {}
                _ => {
                    server.keys.insert(key, value);
                    self.written.insert(key, value);
                }
            }
            return;
        }
    }

    fn claims(&self) -> Vec<(Node, Claim)> {
        let owner = self.owner();
        let claim = |(number, server): (usize, &Server)| {
            let node = Node(number as u16);
            let keys = server.keys.len() as u64;
            let claim = match (server.migrating, server.importing) {
                (Some(to), _) => Claim::Migrating(to),
                (_, Some(from)) => Claim::Importing(from, keys),
                _ if node != owner && keys > 0 => Claim::Holding(keys),
                _ => return None,
            };
            Some((node, claim))
        };
        self.servers.iter().enumerate().filter_map(claim).collect()
    }

    /// Goes on with whatever is open, as a placer does that has just started.
    fn mend(&mut self) {
        for _ in 0..40 {
            let Some(mut migration) = resume(slot(), self.owner(), &self.claims()) else {
                return;
            };
            self.drive(&mut migration, 0);
            for _ in 0..6 {
                self.gossip();
            }
        }
        panic!("still open: {:?} {:?}", self.owner(), self.claims());
    }

    /// Carries a migration out; of a hundred steps `trouble` go wrong. Leaves it in the middle now and
    /// then, if there is trouble at all.
    fn drive(&mut self, migration: &mut Migration, trouble: u32) {
        let mut now = Duration::ZERO;
        while migration.end().is_none() {
            now += Duration::from_secs(2);
            let Some((node, step)) = migration.ready(now) else { continue };
            let wrong = self.random.random_range(0..100);
            let outcome = match wrong {
                _ if wrong >= trouble => self.run(node, &step),
                _ if wrong % 4 == 0 => return,
                _ if wrong % 4 == 1 => Outcome::Failed,
                _ => {
                    let _lost = self.run(node, &step);
                    Outcome::Failed
                }
            };
            migration.step(outcome, now);
            let value = now.as_secs() + (self.random.random_range(0..1_000_000) << 20);
            self.write(value);
            if trouble > 0 && self.random.random_range(0..4) == 0 {
                self.gossip();
            }
        }
    }

    fn check(&self, seed: u64) {
        let owner = usize::from(self.owner().0);
        assert_eq!(self.servers[owner].keys, self.written, "seed {seed}");
        let holding: BTreeSet<usize> =
            (0..3).filter(|&node| !self.servers[node].keys.is_empty()).collect();
        assert!(holding.is_subset(&BTreeSet::from([owner])), "seed {seed}: {holding:?}");
    }
}

#[test]
fn a_slot_moves_with_all_its_keys() {
    let mut cluster = Cluster::new(1);
    for value in 0..40 {
        cluster.write(value);
    }
    let mut migration = Migration::new(slot(), Node(0), Node(2));
    cluster.drive(&mut migration, 0);
    assert_eq!((migration.end(), cluster.owner()), (Some(End::Moved), Node(2)));
    assert_eq!(cluster.claims(), []);
    cluster.check(1);
}

#[test]
fn a_target_without_room_gives_back_what_it_has() {
    for room in 0..12 {
        let mut cluster = Cluster::new(room as u64);
        cluster.loses = false;
        cluster.at(Node(2)).room = Some(room);
        for value in 0..200 {
            cluster.write(value);
        }
        assert_eq!(cluster.written.len(), 12);
        let mut migration = Migration::new(slot(), Node(0), Node(2));
        cluster.drive(&mut migration, 0);
        assert_eq!(migration.end(), Some(End::Refused("OOM".to_owned())));
        assert_eq!((cluster.owner(), cluster.claims()), (Node(0), vec![]));
        cluster.check(room as u64);
        // With more room it moves.
        cluster.at(Node(2)).room = None;
        let mut migration = Migration::new(slot(), Node(0), Node(2));
        cluster.drive(&mut migration, 0);
        assert_eq!((migration.end(), cluster.owner()), (Some(End::Moved), Node(2)));
        cluster.check(room as u64);
    }
}

#[test]
fn nothing_is_lost_wherever_it_breaks_off() {
    for seed in 0..4_000 {
        let mut cluster = Cluster::new(seed);
        let trouble = if seed % 2 == 0 { 30 } else { 80 };
        // A source without room takes nothing back, and stays open: only one that nothing comes from.
        if seed % 3 > 0 {
            cluster.at(Node(2)).room = Some(seed as usize % 7);
        }
        for value in 0..20 {
            cluster.write(value);
        }
        for _ in 0..3 {
            let from = cluster.owner();
            let to = Node((from.0 + cluster.random.random_range(1..NODES)) % NODES);
            let mut migration = Migration::new(slot(), from, to);
            cluster.drive(&mut migration, trouble);
            if migration.end() == Some(End::Stayed) {
                assert_eq!(cluster.claims(), [], "seed {seed}: said to be closed");
            }
            if let Some(End::Refused(_)) = migration.end() {
                assert_eq!((cluster.owner(), cluster.claims()), (from, vec![]), "seed {seed}");
            }
            if migration.end() != Some(End::Moved) && cluster.random.random_range(0..4) == 0 {
                // Its replica takes a node's place, and knows nothing of the migration. One that has
                // not heard that the slot is gone would take it back: no placer can mend that.
                let latest = cluster.at(cluster.owner()).owner;
                let server = cluster.random.random_range(0..NODES);
                let server = cluster.at(Node(server));
                if server.owner == latest {
                    (server.migrating, server.importing) = (None, None);
                }
            }
            cluster.mend();
        }
        cluster.check(seed);
    }
}
