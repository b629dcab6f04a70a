//! Many clients, few keys, slots that never rest, and everything dies now and then: nodes, agents,
//! links, whoever moves slots. What clients of the agents are told could have come from one copy of
//! the data, and the doctor leaves nothing open.

mod support;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use support::cluster::{Linked, NODES};
use support::history::{self, Operation, Outcome, Recorder, What};
use support::process::{PATIENCE, Process};
use support::state::{Agent, by_hand, placer, said};

const CLIENTS: usize = 12;
const AGENTS: usize = 2;
/// Slots that move, by the tag of their keys.
const GROUPS: [&str; 4] = ["{group:0}", "{group:1}", "{group:2}", "{group:3}"];
const KEYS: usize = 40;
/// One of so many who move slots is killed.
const KILLED_OF: usize = 4;

#[test]
fn state_history_is_linearizable_while_slots_move() {
    run(Duration::from_secs(20), 1_000);
}

#[test]
#[ignore = "slow: make soak"]
fn state_history_of_five_minutes_is_linearizable() {
    run(Duration::from_secs(300), 50_000);
}

/// A history of so long and of so many operations at least, while slots move, is linearizable.
fn run(lasts: Duration, operations_min: usize) {
    if history::checker().is_none() {
        return;
    }
    let seed = std::env::var("ENROUTE_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    // What a node has answered survives its end.
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut linked) = Linked::start(&options) else { return };
    let nodes = linked.addresses();
    let mut agents: Vec<Agent> = (0..AGENTS).map(|_| Agent::start(&nodes)).collect();
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
            elapsed if elapsed < lasts => false,
            elapsed => seen.is_enough(operations_min) || elapsed > lasts + 4 * PATIENCE,
        };
        make_trouble(&mut linked, &mut agents, is_over, seed);
        seen.over.store(true, Relaxed);
        mover.join().unwrap();
        eprintln!("{seen:?}");
        assert!(seen.is_enough(operations_min), "little was done: {seen:?}");
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });

    linked.agree();
    let (output, text) = said(&nodes, &["doctor"]);
    eprintln!("doctor: {}", text.trim());
    assert!(output.status.success(), "{text}");
    let (output, text) = said(&nodes, &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");
    // What is there in the end is part of the history.
    let mut last = Client::new(CLIENTS, addresses[0], seed, start);
    let are_read = (0..KEYS).all(|key| last.operate(key, What::Read(None)));
    assert!(are_read, "an agent does not answer in the end");
    let read = last.recorder.finish();
    history.extend(read);
    let verdict = history::check(&history).expect("it was there before");
    eprintln!("seed {seed}: {}", verdict.text);
    assert!(verdict.linearizable, "seed {seed}: {}", verdict.text);
}

/// What was done so far.
#[derive(Debug, Default)]
struct Seen {
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
        let began = mover.stderr_line("Import {");
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

/// Cuts links, kills nodes and agents, one after the other, until it is over; leaves all of them well.
fn make_trouble(linked: &mut Linked, agents: &mut [Agent], is_over: impl Fn() -> bool, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    let sleep = |limit: u64, random: &mut Pcg64Mcg| {
        thread::sleep(Duration::from_millis(random.random_range(0..limit)));
    };
    let (mut cuts, mut nodes, mut killed) = (0, 0, 0);
    while !is_over() {
        sleep(1_500, &mut random);
        let victim = random.random_range(0..NODES);
        match random.random_range(0..10) {
            0..5 => {
                linked.links[victim].cut();
                sleep(200, &mut random);
                linked.links[victim].restore();
                cuts += 1;
            }
            5..8 => {
                agents[victim % AGENTS].restart();
                killed += 1;
            }
            _ => {
                linked.nodes[victim].bring_down();
                sleep(300, &mut random);
                linked.nodes[victim].bring_up();
                nodes += 1;
            }
        }
    }
    eprintln!("{cuts} cuts of a link, {nodes} nodes and {killed} agents killed");
}
