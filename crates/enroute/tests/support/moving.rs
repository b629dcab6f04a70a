//! Many clients of agents, few keys, slots that never rest, and everything dies now and then: nodes, agents, links,
//! whoever moves slots. What clients are told is a history.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::cluster::{Linked, NODES, cluster, connection, valkey};
use super::enroute::program;
use super::history::{self, Operation, Outcome, Recorder, Verdict, What};
use super::origins::Redis;
use super::process::{PATIENCE, Process};
use super::state::{Agent, by_hand, placer, said};

const CLIENTS: usize = 12;
const AGENTS: usize = 2;
/// Slots that move, by the tag of their keys.
const GROUPS: [&str; 4] = ["{group:0}", "{group:1}", "{group:2}", "{group:3}"];
const KEYS: usize = 40;
/// One of so many who move slots is killed.
const KILLED_OF: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Redis,
    Valkey,
}

/// A history to be made.
pub struct History {
    pub engine: Engine,
    /// Which build the agents are of.
    pub agents: PathBuf,
    pub lasts: Duration,
    pub operations_min: usize,
    /// Of the agents.
    pub options: Vec<&'static str>,
    /// Things that go wrong at a time.
    pub faults_at_once: usize,
}

impl History {
    /// With one fault at a time.
    pub fn new(engine: Engine, lasts: Duration, operations_min: usize) -> Self {
        Self {
            engine,
            agents: program(),
            lasts,
            operations_min,
            options: Vec::new(),
            faults_at_once: 1,
        }
    }

    /// Makes it, with slots closed in the end; nothing where something is not installed. The seed is `ENROUTE_SEED`.
    pub fn run(&self) -> Option<Verdict> {
        history::checker()?;
        let seed = std::env::var("ENROUTE_SEED").map_or(0, |seed| seed.parse().expect("a number"));
        eprintln!("ENROUTE_SEED={seed}");
        // What a node has answered survives its end.
        let options = ["--appendonly", "yes", "--appendfsync", "always"];
        let nodes = match self.engine {
            Engine::Redis => cluster(&options),
            Engine::Valkey => valkey(&options),
        };
        let mut linked = Linked::before(nodes?);
        let nodes = linked.addresses();
        let mut agents: Vec<Agent> =
            (0..AGENTS).map(|_| Agent::run(&self.agents, &nodes, &self.options)).collect();
        let addresses: Vec<SocketAddr> = agents.iter().map(Agent::address).collect();

        let (start, seen) = (Instant::now(), Seen::default());
        let mut history: Vec<Operation> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| Client::new(number, addresses[number % AGENTS], seed, start))
                .map(|client| scope.spawn(|| client.run(&seen)))
                .collect();
            let mover = scope.spawn(|| keep_moving(&nodes, &seen, seed));
            // A busy machine may need longer.
            let is_over = || match start.elapsed() {
                elapsed if elapsed < self.lasts => false,
                elapsed => {
                    seen.is_enough(self.operations_min) || elapsed > self.lasts * 4 + 4 * PATIENCE
                }
            };
            self.make_trouble(&mut linked, &mut agents, is_over, seed);
            seen.over.store(true, Relaxed);
            mover.join().unwrap();
            eprintln!("{seen:?}");
            assert!(seen.is_enough(self.operations_min), "little was done: {seen:?}");
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });

        linked.agree();
        // Reads from copies may be older than a write through another agent: the history says little of those.
        let copied = connection(addresses[0]);
        let copied = redis::cmd("GET").arg("{enroute}:copies").query::<String>(&mut { copied });
        eprintln!("slots with copies: {copied:?}");
        let (output, text) = said(&nodes, &["doctor"]);
        eprintln!("doctor: {}", text.trim());
        assert!(output.status.success(), "{text}");
        let (output, text) = said(&nodes, &["doctor"]);
        assert!(output.status.success() && text.contains("no slot is open"), "{text}");
        // What is there in the end is part of the history.
        let mut last = Client::new(CLIENTS, addresses[0], seed, start);
        let are_read = (0..KEYS).all(|key| last.operate(key, What::Read(None)));
        assert!(are_read, "an agent does not answer in the end");
        history.extend(last.recorder.finish());
        let verdict = history::check(&history).expect("it was there before");
        eprintln!("seed {seed}: {}", verdict.text);
        Some(verdict)
    }

    /// Lets things go wrong, so many at once, until it is over; leaves all of them well.
    fn make_trouble(
        &self,
        linked: &mut Linked,
        agents: &mut [Agent],
        is_over: impl Fn() -> bool,
        seed: u64,
    ) {
        let mut random = Pcg64Mcg::seed_from_u64(!seed);
        let sleep = |limit: u64, random: &mut Pcg64Mcg| {
            thread::sleep(Duration::from_millis(random.random_range(0..limit)));
        };
        let mut counts = [0; 5];
        while !is_over() {
            sleep(1_500, &mut random);
            let first = random.random_range(0..NODES);
            // Different ones.
            let victims = (0..self.faults_at_once).map(|number| (first + number) % NODES);
            let faults: Vec<(Fault, usize)> = victims
                .map(|victim| (Fault::some(&mut random, self.faults_at_once), victim))
                .collect();
            for &(fault, victim) in &faults {
                fault.begins(victim, linked, agents);
                counts[fault as usize] += 1;
                sleep(100, &mut random);
            }
            sleep(300, &mut random);
            for &(fault, victim) in faults.iter().rev() {
                fault.ends(victim, linked);
            }
        }
        let [cuts, agents, nodes, stops, clocks] = counts;
        eprintln!(
            "{cuts} cuts of a link, {agents} agents and {nodes} nodes killed, {stops} nodes stopped, {clocks} steps of \
             the lease's clock"
        );
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Cut,
    AgentKilled,
    NodeKilled,
    NodeStopped,
    LeaseOver,
}

impl Fault {
    fn some(random: &mut Pcg64Mcg, at_once: usize) -> Self {
        match random.random_range(0..10) {
            0..4 => Self::Cut,
            4..6 => Self::AgentKilled,
            // What nodes' disks have to do takes most of the time there is.
            6..8 if at_once == 1 => Self::AgentKilled,
            6 => Self::NodeStopped,
            7 => Self::LeaseOver,
            _ => Self::NodeKilled,
        }
    }

    fn begins(self, victim: usize, linked: &mut Linked, agents: &mut [Agent]) {
        match self {
            Self::Cut => linked.links[victim].cut(),
            Self::AgentKilled => agents[victim % AGENTS].restart(),
            Self::NodeKilled => linked.nodes[victim].bring_down(),
            Self::NodeStopped => linked.nodes[victim].process().signal("STOP"),
            Self::LeaseOver => {
                for node in linked.nodes.iter().map(Redis::address) {
                    let client = redis::Client::open(format!("redis://{node}/")).expect("a URL");
                    let limit = Duration::from_millis(200);
                    let connected = client.get_connection_with_timeout(limit);
                    let Ok(mut direct) = connected else { continue };
                    if direct.set_read_timeout(Some(limit)).is_ok() {
                        // Of two that do not have it.
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
            Self::AgentKilled | Self::LeaseOver => {}
        }
    }
}

/// What was done so far.
#[derive(Debug, Default)]
pub struct Seen {
    over: AtomicBool,
    operations: AtomicUsize,
    /// All slots went where they were sent.
    moved: AtomicUsize,
    /// Something stood against it: a node or a link was down.
    failed: AtomicUsize,
    /// Killed in the middle, and a placer took over.
    killed: AtomicUsize,
}

impl Seen {
    fn is_enough(&self, operations_min: usize) -> bool {
        let [operations, moved, killed] =
            [&self.operations, &self.moved, &self.killed].map(|count| count.load(Relaxed));
        operations >= operations_min && moved > 0 && killed > 0
    }
}

struct Client {
    number: usize,
    agent: SocketAddr,
    random: Pcg64Mcg,
    connection: Option<redis::Connection>,
    recorder: Recorder,
}

impl Client {
    fn new(number: usize, agent: SocketAddr, seed: u64, start: Instant) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
        let recorder = Recorder::new(number, start);
        Self { number, agent, random, connection: None, recorder }
    }

    fn run(mut self, seen: &Seen) -> Vec<Operation> {
        let mut value = self.number as u64 * 1_000_000_000;
        while !seen.over.load(Relaxed) {
            value += 1;
            let what = match self.random.random_range(0..100) {
                0..50 => What::Read(None),
                50..90 => What::Write(value),
                _ => What::Delete,
            };
            let key = self.random.random_range(0..KEYS);
            if self.operate(key, what) {
                seen.operations.fetch_add(1, Relaxed);
            }
        }
        self.recorder.finish()
    }

    /// Whether it is recorded.
    fn operate(&mut self, key: usize, what: What) -> bool {
        let (agent, connection) = (self.agent, &mut self.connection);
        let reads = matches!(what, What::Read(_));
        self.recorder.record(key, || {
            let Some(mut used) = connection.take().or_else(|| connect(agent)) else {
                // It is being started again.
                thread::sleep(Duration::from_millis(5));
                return None;
            };
            let unknown = (!reads).then_some((what, Outcome::Unknown));
            if used.send_packed_command(&command(key, what).get_packed_command()).is_err() {
                return unknown;
            }
            let answer = used.recv_response().map(redis::Value::extract_error);
            let told = match &answer {
                Ok(Ok(reply)) => Some((answered(what, reply), Outcome::Succeeded)),
                Ok(Err(error)) if error.code() == Some("UNCERTAIN") => unknown,
                // An answer, and it is no: the write had no effect, says the agent.
                Ok(Err(_)) => (!reads).then_some((what, Outcome::Failed)),
                Err(_) => return unknown,
            };
            *connection = Some(used);
            told
        })
    }
}

fn connect(agent: SocketAddr) -> Option<redis::Connection> {
    let client = redis::Client::open(format!("redis://{agent}/")).ok()?;
    let connection = client.get_connection().ok()?;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(connection)
}

fn command(key: usize, what: What) -> redis::Cmd {
    let (name, value) = match what {
        What::Read(_) => ("GET", None),
        What::Write(value) => ("SET", Some(value)),
        What::Delete => ("DEL", None),
    };
    let mut command = redis::cmd(name);
    command.arg(format!("{}:{key}", GROUPS[key % GROUPS.len()])).arg(value);
    command
}

fn answered(what: What, reply: &redis::Value) -> What {
    match what {
        What::Read(_) => {
            What::Read(redis::from_redis_value_ref(reply).expect("a number or nothing"))
        }
        other => other,
    }
}

/// Sends all slots from node to node. Who does is killed now and then: a placer ends what is open.
fn keep_moving(nodes: &[SocketAddr], seen: &Seen, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed.wrapping_add(1));
    let mut at = 0;
    for round in 1.. {
        if seen.over.load(Relaxed) {
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
        // In the middle, unless it ends before it begins: a node is down.
        let began = mover.stderr_line("slot=");
        thread::sleep(Duration::from_millis(random.random_range(0..20)));
        drop(mover);
        seen.killed.fetch_add(usize::from(began.is_some()), Relaxed);
        let next = placer(nodes, "next");
        // As long as the lease of who was killed.
        while !next.stderr().contains("this placer leads") && !seen.over.load(Relaxed) {
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
