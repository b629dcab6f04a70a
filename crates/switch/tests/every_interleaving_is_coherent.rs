//! The per-key protocol, model-checked: every order in which packets between clients, switch,
//! controller and agent may arrive, be lost or come twice, with keys inserted and evicted, leases
//! ending and the agent restarting, as far as the budgets below go.
//!
//! The agent is the real one. Switch and controller are models of `bpf/netcache.h` and
//! `controller.rs`, one key wide. Checked in every state: what the switch may serve is what the
//! server stores. Where somebody writes around the agent, which hears of it later, that is so once
//! the agent has heard and waits for nothing; and it is never older than an answered write.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    time::Duration,
};

use switch::agent::{Agent, Config, Memory, Store};
use wire::netcache::{Flags, Key, Message, Op};

const KEY: Key = *b"the only key....";

fn at(end: End) -> SocketAddr {
    let port = match end {
        End::Client(number) => 40_000 + u16::from(number),
        End::Switch => 50_000,
        End::Controller => 50_001,
        End::Agent => 50_002,
    };
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum End {
    Client(u8),
    Switch,
    Controller,
    Agent,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Packet {
    from: End,
    to: End,
    bytes: Vec<u8>,
    /// Promises made before the agent's last lapse are over.
    promise: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    version: u64,
    valid_version: u64,
    value: Option<Vec<u8>>,
}

/// What the server stores, with what it stored since the newest write that was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Stored {
    memory: Memory,
    since_answer: Vec<Option<Vec<u8>>>,
}

impl Store for Stored {
    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        self.memory.read(key)
    }

    fn write(&mut self, key: Key, value: Option<&[u8]>, writer: SocketAddr, sequence: u32) {
        self.memory.write(key, value, writer, sequence);
        self.since_answer = vec![self.read(&key)];
    }

    fn last_write(&self, key: &Key, writer: SocketAddr) -> Option<u32> {
        self.memory.last_write(key, writer)
    }
}

impl Stored {
    /// A write that the agent does not see.
    fn around(&mut self, value: &[u8]) {
        if self.since_answer.is_empty() {
            self.since_answer.push(None);
        }
        self.memory.write(KEY, Some(value), SocketAddr::from(([10, 0, 0, 9], 9)), 0);
        self.since_answer.push(Some(value.to_vec()));
    }

    /// Whether it was the value at some time since the newest answered write.
    fn was(&self, value: &Option<Vec<u8>>) -> bool {
        self.since_answer.contains(value) || (self.since_answer.is_empty() && value.is_none())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Budgets {
    writes: u8,
    /// Around the agent.
    changes: u8,
    losses: u8,
    repeats: u8,
    inserts: u8,
    evictions: u8,
    resends: u8,
    lapses: u8,
    restarts: u8,
}

/// Faults that are built in to see them found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Broken {
    /// An update makes the entry valid whatever its version.
    any_update: bool,
    /// The switch does not tag writes.
    no_tags: bool,
    /// A late value is installed although its fetch was given up.
    late_install: bool,
    /// The controller keeps its entries when the agent is a new one.
    keeps_entries: bool,
    /// The agent hears of what was written around it only while it waits for nothing.
    hears_when_idle: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    agent: Agent,
    store: Stored,
    /// Somebody wrote around the agent, which has not heard of it.
    unheard: bool,
    entry: Option<Entry>,
    lease: bool,
    promise: u8,
    pending: Option<u64>,
    generation: u64,
    versions: u64,
    network: Vec<Packet>,
    now: Duration,
    budgets: Budgets,
    /// Whether leases are looked at: they never end where nothing can go wrong with them.
    leases: bool,
}

impl State {
    fn new(budgets: Budgets) -> Self {
        let mut state = Self {
            agent: agent(1, Duration::ZERO),
            store: Stored::default(),
            unheard: false,
            entry: None,
            lease: false,
            promise: 0,
            pending: None,
            generation: 1,
            versions: 0,
            network: Vec::new(),
            now: Duration::ZERO,
            leases: budgets.lapses + budgets.restarts > 0,
            budgets,
        };
        // The controller and the agent know each other already.
        let hello = Message { version: 1, ..Message::new(Op::Lease, 0, [0; 16]) };
        state.agent.receive(at(End::Controller), &hello, &mut state.store, state.now);
        while state.agent.poll_output().is_some() {}
        state.lease = true;
        state
    }

    fn send(&mut self, from: End, to: End, message: &Message<'_>) {
        let packet = Packet { from, to, bytes: message.bytes(), promise: self.promise };
        let place = self.network.partition_point(|other| *other < packet);
        self.network.insert(place, packet);
    }

    fn flush_agent(&mut self) {
        while let Some((to, bytes)) = self.agent.poll_output() {
            let ends = [End::Switch, End::Controller];
            // Answers to clients change nothing any more.
            if let Some(end) = ends.into_iter().find(|end| at(*end) == to) {
                let message = Message::decode(&bytes).expect("our own");
                self.send(End::Agent, end, &message);
            }
        }
    }

    fn deliver(&mut self, packet: &Packet, broken: Broken) {
        let message = Message::decode(&packet.bytes).expect("our own");
        match packet.to {
            End::Agent => {
                self.agent.receive(at(packet.from), &message, &mut self.store, self.now);
                self.flush_agent();
            }
            End::Switch => self.at_switch(packet.from, &message, broken),
            End::Controller => self.at_controller(&message, packet.promise, broken),
            End::Client(_) => {}
        }
    }

    fn at_switch(&mut self, from: End, message: &Message<'_>, broken: Broken) {
        match message.op {
            Op::Put => {
                let mut on = message.clone();
                if let Some(entry) = &mut self.entry {
                    entry.version += 1;
                    if !broken.no_tags {
                        (on.op, on.version) = (Op::PutCached, entry.version);
                    }
                }
                self.send(from, End::Agent, &on);
            }
            Op::Update => {
                let mut flags = Flags::default();
                if let Some(entry) = &mut self.entry {
                    flags = flags.with(Flags::CACHED, true);
                    if entry.version == message.version || broken.any_update {
                        entry.valid_version = entry.version;
                        entry.value =
                            message.flags.has(Flags::FOUND).then(|| message.value.to_vec());
                    }
                }
                let ack = Message {
                    flags,
                    version: message.version,
                    ..Message::new(Op::UpdateAck, message.sequence, KEY)
                };
                self.send(End::Switch, End::Agent, &ack);
            }
            Op::Invalidate => {
                let mut ack = Message::new(Op::InvalidateAck, message.sequence, KEY);
                if let Some(entry) = &mut self.entry {
                    entry.version += 1;
                    (ack.version, ack.flags) = (entry.version, Flags::CACHED);
                }
                self.send(End::Switch, End::Agent, &ack);
            }
            _ => unreachable!("{message:?}"),
        }
    }

    fn at_controller(&mut self, message: &Message<'_>, promise: u8, broken: Broken) {
        match message.op {
            Op::Fetched => {
                let version = message.version;
                if self.pending == Some(version) || (broken.late_install && self.entry.is_none()) {
                    self.pending = None;
                    let value = message.flags.has(Flags::FOUND).then(|| message.value.to_vec());
                    self.entry = Some(Entry { version, valid_version: version, value });
                }
                let is_there = self.entry.as_ref().is_some_and(|entry| entry.version >= version);
                let op = if is_there { Op::Installed } else { Op::Abandoned };
                let told = Message { version, ..Message::new(op, 0, KEY) };
                self.send(End::Controller, End::Agent, &told);
            }
            Op::Leased => {
                if message.version == self.generation {
                    self.lease |= promise == self.promise;
                } else if message.version > self.generation {
                    if !broken.keeps_entries {
                        self.entry = None;
                        self.pending = None;
                    }
                    self.generation = message.version;
                }
            }
            _ => unreachable!("{message:?}"),
        }
    }

    /// Every state one step away, with what was done.
    fn steps(&self, broken: Broken) -> Vec<(String, Self)> {
        let mut steps = Vec::new();
        let mut step = |what: String, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            steps.push((what, next));
        };
        for (index, packet) in self.network.iter().enumerate() {
            let said = Message::decode(&packet.bytes).expect("our own");
            let name = format!("{:?} {} to {:?}", said.op, said.version, packet.to);
            step(format!("deliver {name}"), &|next| {
                let packet = next.network.remove(index);
                next.deliver(&packet, broken);
            });
            if self.budgets.repeats > 0 {
                step(format!("deliver and keep {name}"), &|next| {
                    next.budgets.repeats -= 1;
                    next.deliver(packet, broken);
                });
            }
            if self.budgets.losses > 0 {
                step(format!("lose {name}"), &|next| {
                    next.budgets.losses -= 1;
                    next.network.remove(index);
                });
            }
        }
        let left = &self.budgets;
        if left.writes > 0 {
            step("write".into(), &|next| {
                let number = next.budgets.writes;
                next.budgets.writes -= 1;
                let value = [number];
                let put = Message { value: &value, ..Message::new(Op::Put, 1, KEY) };
                next.send(End::Client(number), End::Switch, &put);
            });
        }
        if left.changes > 0 {
            step("write around the agent".into(), &|next| {
                next.budgets.changes -= 1;
                next.store.around(&[100 + next.budgets.changes]);
                next.unheard = true;
            });
        }
        if self.unheard {
            step("the agent hears of it".into(), &|next| {
                next.unheard = false;
                if next.is_idle() || !broken.hears_when_idle {
                    next.agent.changed(KEY, &mut next.store, next.now);
                    next.flush_agent();
                }
            });
        }
        if left.inserts > 0 && self.entry.is_none() && self.pending.is_none() {
            step("fetch".into(), &|next| {
                next.budgets.inserts -= 1;
                // As the clock does: larger than any version counted up from an earlier one.
                next.versions += 100;
                next.pending = Some(next.versions);
                let ask = Message { version: next.versions, ..Message::new(Op::Fetch, 0, KEY) };
                next.send(End::Controller, End::Agent, &ask);
            });
        }
        if left.evictions > 0 && (self.entry.is_some() || self.pending.is_some()) {
            step("evict or give up".into(), &|next| {
                next.budgets.evictions -= 1;
                next.entry = None;
                next.pending = None;
            });
        }
        if left.resends > 0 && self.agent.poll_timeout().is_some() {
            step("send again".into(), &|next| {
                next.budgets.resends -= 1;
                next.now += Config::default().resend_max;
                next.agent.handle_timeout(&mut next.store, next.now);
                next.flush_agent();
            });
        }
        self.steps_of_leases(&mut step);
        steps
    }

    fn steps_of_leases(&self, step: &mut impl FnMut(String, &dyn Fn(&mut Self))) {
        let left = &self.budgets;
        if !self.leases {
            return;
        }
        if self.lease && left.lapses > 0 {
            step("the switch's lease ends".into(), &|next| next.lease = false);
        }
        if !self.lease && left.lapses > 0 {
            step("the agent's lease ends".into(), &|next| {
                next.budgets.lapses -= 1;
                next.promise += 1;
                next.now += Duration::from_secs(10);
                next.agent.handle_timeout(&mut next.store, next.now);
                next.flush_agent();
            });
        }
        if left.restarts > 0 {
            step("the agent restarts".into(), &|next| {
                next.budgets.restarts -= 1;
                next.agent = agent(next.generation + 50, next.now);
            });
        }
        let asked = self.network.iter().any(|packet| {
            Message::decode(&packet.bytes)
                .is_ok_and(|said| matches!(said.op, Op::Lease | Op::Leased))
        });
        if !asked {
            step("ask for the lease".into(), &|next| {
                let ask =
                    Message { version: next.generation, ..Message::new(Op::Lease, 0, [0; 16]) };
                next.send(End::Controller, End::Agent, &ask);
            });
        }
    }

    /// Whether the agent waits for no answer: all it does by itself is far away.
    fn is_idle(&self) -> bool {
        self.agent.poll_timeout().is_none_or(|at| at > self.now + Config::default().resend_max)
    }

    fn is_coherent(&self) -> bool {
        match &self.entry {
            Some(entry) if self.lease && entry.version == entry.valid_version => {
                let settled = !self.unheard && self.is_idle();
                // An agent that began anew since knows of nothing until its lease is asked for.
                let may_be_old = !settled || self.leases;
                entry.value == self.store.read(&KEY) || may_be_old && self.store.was(&entry.value)
            }
            _ => true,
        }
    }
}

fn agent(generation: u64, now: Duration) -> Agent {
    Agent::new(Config::default(), at(End::Controller), at(End::Switch), generation, now)
}

/// How many states were seen, or the shortest way (of those tried) to a stale one.
fn explore(budgets: Budgets, broken: Broken, states_max: usize) -> Result<usize, Vec<String>> {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut ways: Vec<(usize, String)> = vec![(0, "begin".into())];
    let mut layer = vec![(0, State::new(budgets))];
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (way, state) in layer {
            for (what, mut next) in state.steps(broken) {
                // Statistics tell no two states apart.
                let mut hasher = DefaultHasher::new();
                next.agent.forget_statistics();
                next.hash(&mut hasher);
                if !seen.insert(hasher.finish()) {
                    continue;
                }
                ways.push((way, what));
                if !next.is_coherent() {
                    let mut path = vec![format!("{next:#?}")];
                    let mut at = ways.len() - 1;
                    while at != 0 {
                        path.push(ways[at].1.clone());
                        at = ways[at].0;
                    }
                    path.reverse();
                    return Err(path);
                }
                next_layer.push((ways.len() - 1, next));
            }
            assert!(seen.len() <= states_max, "more than {states_max} states");
        }
        layer = next_layer;
    }
    Ok(seen.len())
}

const SMALL: Budgets = Budgets {
    writes: 2,
    changes: 0,
    losses: 0,
    repeats: 1,
    inserts: 1,
    evictions: 0,
    resends: 0,
    lapses: 0,
    restarts: 0,
};

fn holds(budgets: Budgets) {
    match explore(budgets, Broken::default(), 20_000_000) {
        Ok(states) => println!("{states} states of {budgets:?} are coherent"),
        Err(path) => panic!("stale:\n{}", path.join("\n")),
    }
}

#[test]
fn writes_inserts_losses_and_repeats() {
    holds(SMALL);
    holds(Budgets { losses: 1, resends: 1, repeats: 0, ..SMALL });
    holds(Budgets { evictions: 1, inserts: 2, repeats: 0, ..SMALL });
}

#[test]
fn writes_around_the_agent() {
    let around = Budgets { writes: 1, changes: 1, ..SMALL };
    holds(around);
    holds(Budgets { changes: 2, repeats: 0, ..around });
    holds(Budgets { losses: 1, resends: 1, repeats: 0, ..around });
    holds(Budgets { evictions: 1, inserts: 2, repeats: 0, ..around });
    holds(Budgets { lapses: 1, repeats: 0, ..around });
}

#[test]
fn leases_and_restarts() {
    holds(Budgets { writes: 1, lapses: 1, repeats: 0, ..SMALL });
    holds(Budgets { writes: 1, restarts: 1, repeats: 0, ..SMALL });
}

#[test]
#[ignore = "minutes: make soak"]
fn everything_at_once() {
    holds(Budgets { evictions: 1, inserts: 2, repeats: 1, losses: 1, resends: 1, ..SMALL });
    holds(Budgets { writes: 2, lapses: 1, restarts: 1, repeats: 0, ..SMALL });
    holds(Budgets { writes: 1, changes: 2, losses: 1, resends: 1, repeats: 0, ..SMALL });
}

#[test]
fn each_rule_is_needed() {
    for (broken, budgets) in [
        (Broken { any_update: true, ..Broken::default() }, SMALL),
        (Broken { no_tags: true, any_update: true, ..Broken::default() }, SMALL),
        (
            Broken { late_install: true, ..Broken::default() },
            Budgets { evictions: 1, lapses: 1, ..SMALL },
        ),
        (
            Broken { keeps_entries: true, ..Broken::default() },
            Budgets { restarts: 1, lapses: 0, ..SMALL },
        ),
        (
            Broken { hears_when_idle: true, ..Broken::default() },
            Budgets { changes: 1, writes: 1, ..SMALL },
        ),
    ] {
        let path = explore(budgets, broken, 5_000_000).expect_err(&format!("{broken:?} is found"));
        println!("{broken:?}: stale after {} steps", path.len() - 1);
    }
}
