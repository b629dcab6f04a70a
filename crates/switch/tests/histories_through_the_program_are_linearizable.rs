//! Clients, agent and controller with the real program, on a network that loses, duplicates and
//! reorders packets, while keys are inserted and evicted and controller and agent are killed: the
//! recorded history must be linearizable.
//!
//! Everything except the program is simulated from one seed.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::{
    collections::BTreeMap,
    fmt::Write,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use support::{at, data_plane, small};
use switch::{
    agent::{Agent, Config as AgentConfig, Memory},
    controller::{Command as Do, Config as ControllerConfig, Controller, Event, View},
    frame::Frame,
    install::Room,
    layout::UNIT_BYTES,
    plane::{Config, DROP, DataPlane, TRANSMIT, Values},
};
use wire::netcache::{Flags, Message, Op};

const CLIENTS: usize = 6;
const KEYS: u32 = 4;
const ENTRIES: u32 = 32;
/// The controller needs at most one row for each entry; values are moved to the others.
const VALUES: Values = Values::Registers { rows: 3 * ENTRIES };
const SERVER: &str = "10.0.0.2:50000";
const SWITCH: &str = "10.0.0.254:50000";
const CONTROLLER: &str = "10.0.0.254:50001";

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

struct Counters<'a>(&'a DataPlane);

impl View for Counters<'_> {
    fn count(&self, place: u32) -> u16 {
        self.0.counters.counter(place)
    }
    fn is_valid(&self, place: u32) -> bool {
        self.0.version(place).is_some_and(|(_, valid)| valid)
    }
    fn flushed_from(&self, _: Duration) -> Option<Duration> {
        None
    }
}

#[derive(Clone)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
    /// The packet has passed the program.
    beyond: bool,
}

struct Asked {
    sequence: u32,
    key: u32,
    /// `None` for a read.
    value: Option<u64>,
    called: u64,
    resend: Duration,
    message: Vec<u8>,
}

struct World {
    random: Random,
    plane: DataPlane,
    controller: Controller,
    agent: Agent,
    store: Memory,
    network: BTreeMap<(Duration, u64), Packet>,
    now: Duration,
    leases: Vec<Duration>,
    order: u64,
    clients: Vec<Option<Asked>>,
    sequence: u32,
    values: u64,
    history: String,
    done: usize,
    hits: usize,
    moved: usize,
    faults: bool,
    /// An injected fault: every write makes the entry valid again.
    broken: bool,
}

fn client(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 100 + number as u8], 40_000))
}

fn agent(generation: u64, now: Duration) -> Agent {
    Agent::new(AgentConfig::default(), at(CONTROLLER), at(SWITCH), generation, now)
}

fn controller() -> Controller {
    Controller::new(ControllerConfig {
        entries: ENTRIES,
        values: VALUES,
        ..ControllerConfig::default()
    })
}

impl World {
    fn new(seed: u64, broken: bool) -> Option<Self> {
        let statistics =
            policy::hotkey::Config { threshold: 2, ..policy::hotkey::Config::default() };
        Some(Self {
            random: Random(SplitMix64::seed_from_u64(seed)),
            plane: data_plane(Config { entries: ENTRIES, statistics, values: VALUES, ..small() })?,
            controller: controller(),
            agent: agent(1, Duration::ZERO),
            store: Memory::default(),
            network: BTreeMap::new(),
            now: Duration::from_secs(1),
            leases: vec![Duration::ZERO; 4],
            order: 0,
            clients: (0..CLIENTS).map(|_| None).collect(),
            sequence: 0,
            values: 0,
            history: String::new(),
            done: 0,
            hits: 0,
            moved: 0,
            faults: true,
            broken,
        })
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8], beyond: bool) {
        let copies = if self.faults && self.random.one_in(12) { 2 } else { 1 };
        for _ in 0..copies {
            if self.faults && self.random.one_in(15) {
                continue;
            }
            // Mostly in order, sometimes much later.
            let mut late = 20 + self.random.below(60);
            if self.faults && self.random.one_in(6) {
                late += self.random.below(30_000);
            }
            self.order += 1;
            let packet = Packet { from, to, payload: payload.to_vec(), beyond };
            self.network.insert((self.now + Duration::from_micros(late), self.order), packet);
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        let through = !packet.beyond && (packet.to == at(SERVER) || packet.to == at(SWITCH));
        if through && packet.from != at(CONTROLLER) {
            self.through_the_program(packet);
            return;
        }
        if let Some(number) = (0..CLIENTS).find(|number| client(*number) == packet.to) {
            self.answered(number, &packet.payload);
            return;
        }
        let Ok(message) = Message::decode(&packet.payload) else { return };
        if packet.to == at(SERVER) {
            self.agent.receive(packet.from, &message, &mut self.store, self.now);
            self.flush_agent();
        } else if packet.to == at(CONTROLLER) {
            self.step(Event::Message(packet.from, message));
        }
    }

    fn through_the_program(&mut self, packet: &Packet) {
        for (lease, until) in self.leases.iter().enumerate() {
            let served = if *until > self.now { u64::MAX } else { 0 };
            self.plane.leases[lease].store(served, Relaxed);
        }
        let frame = Frame::udp(packet.from, packet.to).bytes(&packet.payload);
        let outcome = self.plane.run(&frame, 1).expect("it runs");
        if outcome.verdict == DROP {
            return;
        }
        let (frame, payload) = Frame::read(&outcome.frame).expect("well-formed");
        if self.broken {
            for entry in self.plane.entries.iter() {
                entry.valid_version.store(entry.version.load(Relaxed), Relaxed);
            }
        }
        self.hits += usize::from(outcome.verdict == TRANSMIT && packet.from != at(SERVER));
        self.send(frame.source, frame.destination, &payload, true);
    }

    fn flush_agent(&mut self) {
        while let Some((to, bytes)) = self.agent.poll_output() {
            self.send(at(SERVER), to, &bytes, false);
        }
    }

    fn step(&mut self, event: Event<'_>) {
        self.controller.step(event, &Counters(&self.plane), self.now);
        while let Some(command) = self.controller.ready() {
            match command {
                Do::Send(to, bytes) => self.send(at(CONTROLLER), to, &bytes, true),
                Do::Admit(place, key, room, version) => {
                    self.plane.admit(place, &key, room, version);
                }
                Do::Fill(place, version, value) => drop(self.plane.fill(place, version, &value)),
                Do::Move(..) => unreachable!("units are not scattered"),
                Do::Evict(place, name) => self.plane.evict(place, &name),
                Do::Lease(lease, until) => self.leases[lease as usize] = until,
                Do::Ask(..) => unreachable!("memcached's protocol is not used"),
                Do::ClearStatistics => {
                    self.plane.counters.clear();
                    self.plane.sketch.clear();
                    self.plane.filter.clear();
                }
            }
        }
    }

    fn call(&mut self, number: usize) {
        self.sequence += 1;
        let key = self.random.below(u64::from(KEYS)) as u32;
        let writes = self.random.one_in(4);
        let deletes = writes && self.random.one_in(6);
        self.values += 1;
        // Values of one to six units.
        let spaces = self.random.below(6) as usize * UNIT_BYTES;
        let text = format!("{}{:spaces$}", self.values, "");
        let op = match (writes, deletes) {
            (false, _) => Op::Get,
            (true, false) => Op::Put,
            (true, true) => Op::Delete,
        };
        let value = if op == Op::Put { text.as_bytes() } else { b"" };
        let message =
            Message { value, ..Message::new(op, self.sequence, support::name(key)) }.bytes();
        let asked = Asked {
            sequence: self.sequence,
            key,
            value: writes.then_some(if deletes { 0 } else { self.values }),
            called: self.now.as_nanos() as u64,
            resend: self.now + Duration::from_millis(10),
            message: message.clone(),
        };
        self.clients[number] = Some(asked);
        self.send(client(number), at(SERVER), &message, false);
    }

    fn answered(&mut self, number: usize, payload: &[u8]) {
        let Ok(message) = Message::decode(payload) else { return };
        let is_reply = matches!(message.op, Op::GetReply | Op::PutReply | Op::DeleteReply);
        let asked =
            self.clients[number].take_if(|asked| is_reply && asked.sequence == message.sequence);
        let Some(asked) = asked else { return };
        let value = match asked.value {
            None if message.flags.has(Flags::FOUND) => {
                String::from_utf8_lossy(message.value).trim_end().to_owned()
            }
            None | Some(0) => "null".into(),
            Some(value) => value.to_string(),
        };
        let op = match asked.value {
            None => "read",
            Some(0) => "delete",
            Some(_) => "write",
        };
        let _ = writeln!(
            self.history,
            r#"{{"client":{number},"key":{},"op":"{op}","value":{value},"ok":true,"call_ns":{},"return_ns":{}}}"#,
            asked.key,
            asked.called,
            self.now.as_nanos()
        );
        self.done += 1;
    }

    /// Advances to the next event and executes it.
    fn advance(&mut self) {
        let next = self.network.first_key_value().map(|((at, _), _)| *at);
        let soon = self.now + Duration::from_micros(200);
        self.now = next.map_or(soon, |at| at.clamp(self.now, soon));
        while let Some(packet) =
            self.network.first_entry().filter(|first| first.key().0 <= self.now)
        {
            let packet = packet.remove();
            self.deliver(&packet);
        }
        while let Some(report) = self.plane.report() {
            self.step(Event::Report(report));
        }
        self.step(Event::Tick);
        if self.agent.poll_timeout().is_some_and(|at| at <= self.now) {
            self.agent.handle_timeout(&mut self.store, self.now);
            self.flush_agent();
        }
        for number in 0..CLIENTS {
            match &mut self.clients[number] {
                None => self.call(number),
                Some(asked) if asked.resend <= self.now => {
                    asked.resend = self.now + Duration::from_millis(10);
                    let message = asked.message.clone();
                    self.send(client(number), at(SERVER), &message, false);
                }
                Some(_) => {}
            }
        }
    }

    /// Moves the value of an entry to one of two rows that are its own.
    fn move_a_value(&mut self) {
        let places: Vec<u32> = self.plane.lookup.places().collect();
        if places.is_empty() {
            return;
        }
        let place = places[self.random.below(places.len() as u64) as usize];
        let entry = &self.plane.entries[place as usize];
        let bitmap = u32::from(entry.bitmap.load(Relaxed));
        let odd = self.moved as u32 % 2;
        self.plane.relocate(place, Room { place: ENTRIES * (1 + odd) + place, bitmap });
        self.moved += 1;
    }

    fn misfortune(&mut self) {
        match self.random.below(4_000) {
            0 => {
                // Restarts the controller; the program keeps running and is then emptied.
                self.controller = controller();
                self.plane.clear().expect("it is loaded");
            }
            1 => self.agent = agent(self.now.as_nanos() as u64, self.now),
            2 => self.leases.iter_mut().for_each(|until| *until = Duration::ZERO),
            3..=60 if self.plane.lookup.places().next().is_some() => self.step(Event::Period),
            61 => self.now += Duration::from_secs(6),
            62..=400 => self.move_a_value(),
            _ => {}
        }
    }
}

fn checker() -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.deps/bin/checker");
    if path.exists() {
        return Some(path);
    }
    println!("SKIPPED: no checker; ./deps.sh builds it");
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"));
    None
}

/// Whether the history of a seed is linearizable, and its numbers of operations, hits and moves.
fn history(seed: u64, operations: usize, broken: bool) -> Option<(bool, [usize; 3])> {
    let checker = checker()?;
    let mut world = World::new(seed, broken)?;
    while world.done < operations {
        world.advance();
        world.misfortune();
    }
    // Writes without a reply may have been applied.
    for (number, asked) in world.clients.iter().enumerate() {
        if let Some(Asked { key, value: Some(value), called, .. }) = asked {
            let (op, value) =
                if *value == 0 { ("delete", "null".into()) } else { ("write", value.to_string()) };
            let _ = writeln!(
                world.history,
                r#"{{"client":{number},"key":{key},"op":"{op}","value":{value},"ok":"unknown","call_ns":{called},"return_ns":{called}}}"#
            );
        }
    }
    let mut child = Command::new(checker)
        .args(["--html", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the checker starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, world.history.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let verdict = String::from_utf8_lossy(&output.stdout);
    let (hits, moved) = (world.hits, world.moved);
    println!(
        "seed {seed}, {hits} hits, {moved} moved: {}",
        verdict.lines().next().unwrap_or_default()
    );
    assert!(output.status.code() != Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && !broken {
        println!("{verdict}");
    }
    Some((output.status.success(), [world.done, world.hits, world.moved]))
}

#[test]
fn a_few_seeds() {
    for seed in 1..=6 {
        let Some((linearizable, [done, hits, moved])) = history(seed, 3_000, false) else { return };
        assert!(linearizable, "seed {seed}");
        assert!(hits > done / 20, "seed {seed}: only {hits} hits of {done}");
        assert!(moved > done / 20, "seed {seed}: only {moved} moves");
    }
}

#[test]
fn a_switch_that_serves_too_much_is_found() {
    let Some((linearizable, ..)) = history(1, 3_000, true) else { return };
    assert!(!linearizable);
}

#[test]
#[ignore = "minutes: make soak"]
fn many_seeds() {
    for seed in 100..160 {
        let Some((linearizable, ..)) = history(seed, 10_000, false) else { return };
        assert!(linearizable, "seed {seed}");
    }
}
