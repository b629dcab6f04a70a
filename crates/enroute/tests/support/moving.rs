//! The history of many clients of agents on few keys, while slots move continually and components
//! are killed: nodes, agents, links, movers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testbed::link::RelayHandle;

use super::cgroup::Cgroup;
use super::clients::{Client, Mix};
use super::clock::Clock;
use super::cluster::{Linked, NODES, bus_behind_link, cluster, valkey};
use super::enroute::program;
use super::handover::{Handover, handovers};
use super::history::{self, Operation, Verdict};
use super::origins::Redis;
use super::process::{PATIENCE, Process};
use super::state::{Agent, by_hand, placer, said, slot_of};

const CLIENTS: usize = 12;
const AGENTS: usize = 2;
/// Tags of the keys of the slots that move.
const GROUPS: [&str; 4] = ["{group:0}", "{group:1}", "{group:2}", "{group:3}"];
const MIX: Mix = Mix {
    reads: 50,
    writes: 40,
    keys: 40,
    busy_keys: 40,
    name: |key| format!("{}:{key}", GROUPS[key % GROUPS.len()]),
    leaves_of: None,
};
/// No copies: a read from a copy may be older than a write through another agent
/// (`state_copies_are_coherent.rs`).
const AGENT_OPTIONS: [&str; 2] = ["--report-period", "0"];
/// One in this many movers is killed.
const KILLED_OF: usize = 4;

/// Maximum step of a node's clock, in either direction.
const STEP_MAX_S: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Redis,
    Valkey,
}

/// The parameters of a history.
pub struct History {
    pub engine: Engine,
    /// The program of the agents.
    pub agents: PathBuf,
    pub lasts: Duration,
    pub operations_min: usize,
    /// Delay of the messages between nodes.
    pub bus_delay: Duration,
    /// Number of simultaneous faults.
    pub faults_at_once: usize,
    /// The seed of the random choices: `ENROUTE_SEED`, or 0.
    pub seed: u64,
}

impl History {
    /// A history with one fault at a time.
    pub fn new(engine: Engine, lasts: Duration, operations_min: usize) -> Self {
        Self {
            engine,
            agents: program(),
            lasts,
            operations_min,
            bus_delay: Duration::ZERO,
            faults_at_once: 1,
            seed: std::env::var("ENROUTE_SEED").map_or(0, |seed| seed.parse().expect("a number")),
        }
    }

    /// Records the history, with all slots closed at the end; `None` if a tool is not installed.
    pub fn run(&self) -> Option<Verdict> {
        history::checker()?;
        let seed = self.seed;
        eprintln!("seed {seed}");
        // Acknowledged writes survive the kill of a node.
        let options = ["--appendonly", "yes", "--appendfsync", "always"];
        let nodes = match self.engine {
            Engine::Redis => cluster(&options),
            Engine::Valkey => valkey(&options),
        };
        let mut nodes = nodes?;
        let _buses = self.slow_down(&mut nodes);
        let mut linked = Linked::before(nodes);
        let nodes = linked.addresses();
        // Declared before the agents, so that it is dropped after them.
        let group = if self.faults_at_once > 1 { Cgroup::make("agents") } else { None };
        let mut agents: Vec<Agent> =
            (0..AGENTS).map(|_| Agent::run(&self.agents, &nodes, &AGENT_OPTIONS)).collect();
        let addresses: Vec<SocketAddr> = agents.iter().map(Agent::address).collect();

        let (start, began, seen) = (Instant::now(), SystemTime::now(), Seen::default());
        let mut history: Vec<Operation> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| Client::new(number, addresses[number % AGENTS], &MIX, seed, start))
                .map(|client| scope.spawn(|| client.run(|| !seen.is_over(), || seen.count())))
                .collect();
            let mover = scope.spawn(|| keep_moving(&nodes, &seen, seed));
            // A busy machine may need longer.
            let is_over = || match start.elapsed() {
                elapsed if elapsed < self.lasts => false,
                elapsed => {
                    seen.is_enough(self.operations_min) || elapsed > self.lasts * 4 + 4 * PATIENCE
                }
            };
            self.make_trouble(&mut linked, &mut agents, group.as_ref(), is_over, seed);
            seen.over.store(true, Relaxed);
            mover.join().unwrap();
            eprintln!("{seen:?}");
            assert!(seen.is_enough(self.operations_min), "little was done: {seen:?}");
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });

        linked.agree();
        let (output, text) = said(&nodes, &["doctor"]);
        eprintln!("doctor: {}", text.trim());
        assert!(output.status.success(), "{text}");
        let (output, text) = said(&nodes, &["doctor"]);
        assert!(output.status.success() && text.contains("no slot is open"), "{text}");
        // The final state is part of the history.
        let last = Client::new(CLIENTS, addresses[0], &MIX, seed, start);
        let (are_read, in_the_end) = last.read_all();
        assert!(are_read, "an agent does not answer at the end");
        history.extend(in_the_end);
        if self.engine == Engine::Valkey {
            let logs = linked.nodes.iter().map(Redis::log);
            leave_out(&mut history, logs.flat_map(|log| handovers(&log, began)));
        }
        let verdict = history::check(&history).expect("it was there before");
        eprintln!("seed {seed}: {}", verdict.text);
        Some(verdict)
    }

    fn slow_down(&self, nodes: &mut [Redis]) -> Vec<RelayHandle> {
        if self.bus_delay.is_zero() {
            return Vec::new();
        }
        let all: Vec<usize> = (0..NODES).collect();
        let others = |node: usize| all.iter().copied().filter(move |&other| other != node);
        let behind_link =
            |node: usize| bus_behind_link(nodes, node, &others(node).collect::<Vec<_>>());
        let buses: Vec<RelayHandle> = (0..NODES).map(behind_link).collect();
        buses.iter().for_each(|bus| bus.set_delay(self.bus_delay, self.bus_delay));
        buses
    }

    /// Causes this number of simultaneous faults until the history ends, and ends all of them.
    fn make_trouble(
        &self,
        linked: &mut Linked,
        agents: &mut [Agent],
        group: Option<&Cgroup>,
        is_over: impl Fn() -> bool,
        seed: u64,
    ) {
        let mut random = Pcg64Mcg::seed_from_u64(!seed);
        let sleep = |limit: u64, random: &mut Pcg64Mcg| {
            thread::sleep(Duration::from_millis(random.random_range(0..limit)));
        };
        let mut counts = [0; 7];
        while !is_over() {
            sleep(1_500, &mut random);
            let first = random.random_range(0..NODES);
            // Distinct victims.
            let victims = (0..self.faults_at_once).map(|number| (first + number) % NODES);
            let faults: Vec<(Fault, usize)> = victims
                .map(|victim| (Fault::some(&mut random, self.faults_at_once), victim))
                .collect();
            for &(fault, victim) in &faults {
                match fault {
                    Fault::LessMemory => press(group, agents, &mut random),
                    _ => fault.begins(victim, linked, agents, &mut random),
                }
                counts[fault as usize] += 1;
                sleep(100, &mut random);
            }
            sleep(300, &mut random);
            for &(fault, victim) in faults.iter().rev() {
                fault.ends(victim, linked);
            }
        }
        let [cuts, agents, nodes, stops, leases, clocks, presses] = counts;
        eprintln!(
            "{cuts} cuts of a link, {agents} agents and {nodes} nodes killed, {stops} nodes stopped, {leases} leases over \
             early, {clocks} steps of a node's clock, {presses} times little memory for agents"
        );
    }
}

/// Limits the agents to their present memory for a while.
fn press(group: Option<&Cgroup>, agents: &[Agent], random: &mut Pcg64Mcg) {
    let Some(group) = group else { return };
    // They may have been restarted.
    agents.iter().for_each(|agent| group.take(agent.process().id()));
    group.press(Duration::from_millis(random.random_range(0..1_000)));
}

/// The possible faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Cut,
    AgentKilled,
    NodeKilled,
    NodeStopped,
    LeaseOver,
    ClockStepped,
    LessMemory,
}

impl Fault {
    fn some(random: &mut Pcg64Mcg, at_once: usize) -> Self {
        match random.random_range(0..if at_once == 1 { 10 } else { 12 }) {
            0..4 => Self::Cut,
            4..6 => Self::AgentKilled,
            // Killed less often, because the nodes' disk work takes most of the time.
            6..8 if at_once == 1 => Self::AgentKilled,
            6 => Self::NodeStopped,
            7 => Self::LeaseOver,
            10 => Self::ClockStepped,
            11 => Self::LessMemory,
            _ => Self::NodeKilled,
        }
    }

    fn begins(
        self,
        victim: usize,
        linked: &mut Linked,
        agents: &mut [Agent],
        random: &mut Pcg64Mcg,
    ) {
        match self {
            Self::Cut => linked.links[victim].cut(),
            Self::AgentKilled => agents[victim % AGENTS].restart(),
            Self::NodeKilled => linked.nodes[victim].bring_down(),
            Self::NodeStopped => linked.nodes[victim].process().signal("STOP"),
            Self::ClockStepped => {
                // Leases expire early or late.
                let seconds = random.random_range(-STEP_MAX_S..=STEP_MAX_S);
                let clock = Clock::of(linked.nodes[victim].process());
                clock.iter().for_each(|clock| clock.set_ahead(seconds));
            }
            Self::LessMemory => {}
            Self::LeaseOver => {
                for node in linked.nodes.iter().map(Redis::address) {
                    let client = redis::Client::open(format!("redis://{node}/")).expect("a URL");
                    let limit = Duration::from_millis(200);
                    let connected = client.get_connection_with_timeout(limit);
                    let Ok(mut direct) = connected else { continue };
                    if direct.set_read_timeout(Some(limit)).is_ok() {
                        // For the two nodes without the key it has no effect.
                        let _ = redis::cmd("DEL").arg("{enroute}:placer").exec(&mut direct);
                    }
                }
            }
        }
    }

    fn ends(self, victim: usize, linked: &mut Linked) {
        match self {
            Self::Cut => linked.links[victim].restore(),
            Self::NodeKilled => linked.nodes[victim].bring_up(),
            Self::NodeStopped => linked.nodes[victim].process().signal("CONT"),
            Self::ClockStepped => drop(Clock::of(linked.nodes[victim].process())),
            Self::AgentKilled | Self::LeaseOver | Self::LessMemory => {}
        }
    }
}

/// Counts of completed actions.
#[derive(Debug, Default)]
pub struct Seen {
    over: AtomicBool,
    operations: AtomicUsize,
    /// All slots reached their targets.
    moved: AtomicUsize,
    /// The move failed: a node or a link was down.
    failed: AtomicUsize,
    /// The mover was killed, and a placer took over.
    killed: AtomicUsize,
}

impl Seen {
    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn count(&self) {
        self.operations.fetch_add(1, Relaxed);
    }

    fn is_enough(&self, operations_min: usize) -> bool {
        let [operations, moved, killed] =
            [&self.operations, &self.moved, &self.killed].map(|count| count.load(Relaxed));
        operations >= operations_min && moved > 0 && killed > 0
    }
}

/// Leaves out reads that the engine may have served at the source of a slot that already belonged
/// to its target.
fn leave_out(history: &mut Vec<Operation>, handovers: impl Iterator<Item = Handover>) {
    let mut handovers: Vec<Handover> = handovers.collect();
    assert!(!handovers.is_empty(), "slots moved, and no node logged that it handed one over");
    handovers.sort_by_key(|handover| handover.ends);
    let of = |key: usize| {
        let slot = slot_of(&(MIX.name)(key));
        let of_it = handovers.iter().filter(move |one| (one.slots.0..=one.slots.1).contains(&slot));
        of_it.map(|one| (one.begins, one.ends)).collect()
    };
    let times: Vec<Vec<(Duration, Duration)>> = (0..MIX.keys).map(of).collect();
    let before = history.len();
    history.retain(|operation| {
        operation.read().is_none_or(|(key, called, returned)| {
            let next = times[key].partition_point(|&(_, ends)| ends < called);
            times[key].get(next).is_none_or(|&(begins, _)| begins > returned)
        })
    });
    let longest = handovers.iter().map(|one| one.ends.saturating_sub(one.begins)).max();
    eprintln!(
        "{} reads during {} handovers are left out; the longest took {longest:?}",
        before - history.len(),
        handovers.len()
    );
}

/// Moves all slots from node to node. The mover is killed occasionally; a placer completes open
/// moves.
fn keep_moving(nodes: &[SocketAddr], seen: &Seen, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed.wrapping_add(1));
    let mut at = 0;
    for round in 1.. {
        if seen.is_over() {
            break;
        }
        at += random.random_range(1..NODES);
        let to = nodes[at % NODES].to_string();
        let words = [&["move"], &GROUPS[..], &["--to", &to, "--log", "debug"]].concat();
        let mover = Process::start(&mut by_hand(nodes, &words));
        if round % KILLED_OF != 0 {
            let count = if mover.wait().status.success() { &seen.moved } else { &seen.failed };
            count.fetch_add(1, Relaxed);
            continue;
        }
        // Kills it in the middle, unless it ends before: a node is down.
        let began = mover.stderr_line("slot=");
        thread::sleep(Duration::from_millis(random.random_range(0..20)));
        drop(mover);
        seen.killed.fetch_add(usize::from(began.is_some()), Relaxed);
        let next = placer(nodes, "next");
        // Waits for the remaining lease of the killed mover.
        while !next.stderr().contains("this placer leads") && !seen.is_over() {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(random.random_range(0..500)));
        if random.random_ratio(1, 4) {
            drop(next);
        } else {
            next.terminate();
        }
    }
}
