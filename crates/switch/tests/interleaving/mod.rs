//! The state of the protocol for one key, and its invariants.

mod delivery;
mod hostile;
mod steps;
mod stored;

use std::{net::SocketAddr, time::Duration};

use stored::Stored;
use switch::agent::{Agent, Config, Store};
use wire::netcache::{Key, Message, Op};

/// Sequence number of the lease requests, which cannot be guessed.
const ASKED: u32 = 0x7a31_5c0d;
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
    /// Leases granted before the agent's last restart have expired.
    promise: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    /// The initial version.
    admitted: u64,
    version: u64,
    valid_version: u64,
    value: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budgets {
    pub writes: u8,
    /// Writes that bypass the agent.
    pub changes: u8,
    pub losses: u8,
    pub repeats: u8,
    pub inserts: u8,
    pub evictions: u8,
    /// Moves of the value to another row.
    pub moves: u8,
    pub resends: u8,
    pub lapses: u8,
    pub restarts: u8,
    /// Messages of the attacker.
    pub forgeries: u8,
}

/// Faults that can be injected, to show that they are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Broken {
    /// An update makes the entry valid whatever its version.
    pub any_update: bool,
    /// The switch does not tag writes.
    pub no_tags: bool,
    /// A late value is installed although its fetch was abandoned.
    pub late_install: bool,
    /// The controller keeps its entries when the agent has restarted.
    pub keeps_entries: bool,
    /// The agent learns of writes that bypassed it only while nothing is pending.
    pub hears_when_idle: bool,
    /// The agent accepts any tag larger than the last one.
    pub believes_tags: bool,
    /// The switch accepts messages that their senders may not send.
    pub takes_all: bool,
    /// A value that a write has made invalid is served again where it was moved to.
    pub moves_any: bool,
    /// The attacker can also read the network.
    pub readable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub agent: Agent,
    store: Stored,
    /// A write has bypassed the agent, which has not learned of it.
    unheard: bool,
    entry: Option<Entry>,
    lease: bool,
    promise: u8,
    pending: Option<u64>,
    generation: u64,
    /// Number of versions that were drawn.
    versions: u64,
    network: Vec<Packet>,
    now: Duration,
    budgets: Budgets,
    /// Whether leases can expire; they never do where this cannot cause a fault.
    leases: bool,
}

impl State {
    pub fn new(budgets: Budgets, broken: Broken) -> Self {
        let mut state = Self {
            agent: agent(1, Duration::ZERO, broken),
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
        // The controller and the agent have exchanged leases.
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
            // Replies to clients change no state.
            if let Some(end) = ends.into_iter().find(|end| at(*end) == to) {
                let message = Message::decode(&bytes).expect("our own");
                self.send(End::Agent, end, &message);
            }
        }
    }

    /// Whether nothing is pending at the agent: its timers are far away.
    fn is_idle(&self) -> bool {
        self.agent.poll_timeout().is_none_or(|at| at > self.now + Config::default().resend_max)
    }

    pub fn is_coherent(&self) -> bool {
        match &self.entry {
            Some(entry) if self.lease && entry.version == entry.valid_version => {
                let settled = !self.unheard && self.is_idle();
                // A restarted agent knows of nothing until its lease is requested.
                let may_be_old = !settled || self.leases;
                entry.value == self.store.read(&KEY) || may_be_old && self.store.was(&entry.value)
            }
            _ => true,
        }
    }
}

fn agent(secret: u64, now: Duration, broken: Broken) -> Agent {
    let mut config = Config::default();
    if broken.believes_tags {
        config.tags_ahead_max = u64::MAX / 2;
    }
    Agent::new(config, at(End::Controller), at(End::Switch), secret, now)
}

/// The versions of admitted keys: unordered, and far from each other.
fn drawn(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2
}
