//! An agent with a simulated cluster whose slots move, and with connections that break, from one
//! seed.

mod memory;
mod messages;
mod nodes;
mod own;
mod redirections;
mod refused;
mod whole_cluster;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use wire::resp::{frame, request::Decoder};

use super::*;

const NODES: usize = 3;
const TAGS: [&str; 3] = ["a", "b", "c"];
const KEYS: usize = 4;

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1 + node as u16))
}

/// One node, reduced to the rules of Redis's `cluster.c` for three slots.
#[derive(Default)]
struct Server {
    owner: [usize; 3],
    migrating: [Option<usize>; 3],
    importing: [Option<usize>; 3],
    keys: BTreeMap<String, Vec<u64>>,
}

/// The node's side of a connection.
#[derive(Default)]
struct Wire {
    node: usize,
    to_node: Vec<u8>,
    input: Vec<u8>,
    from_node: Vec<u8>,
    asking: bool,
    queued: Option<(Vec<Vec<String>>, bool)>,
    /// The next read is tracked, and its client notified of changes.
    caching: bool,
    tracked: BTreeSet<String>,
}

struct Caller {
    seat: usize,
    /// Unanswered requests: the kind, and the sequence number that it wrote or the smallest that it
    /// must read.
    asked: VecDeque<(Kind, u64)>,
    heard: Vec<u8>,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Push,
    Read,
    Many,
    /// A write to keys of two slots, of this mark and the next.
    Spread,
    Flush,
    Begun,
    Queued,
    Executed,
    Here,
}

struct World {
    agent: Agent,
    now: Duration,
    random: Pcg64,
    servers: Vec<Server>,
    wires: BTreeMap<usize, Wire>,
    callers: Vec<Caller>,
    /// Sequence numbers of acknowledged writes, and of those with an unknown outcome.
    done: BTreeSet<u64>,
    uncertain: BTreeSet<u64>,
    /// The key of every sequence number, and the number of acknowledged writes of each key.
    key_of: BTreeMap<u64, String>,
    acknowledged: BTreeMap<String, u64>,
    copied: u64,
    /// A phase without writes, so that there are copies.
    reads: bool,
    /// Some requests delete all keys.
    flushes: bool,
    /// Marks that were acknowledged before such a request was sent, and those that it has deleted.
    acknowledged_at_flush: BTreeMap<u64, BTreeSet<u64>>,
    deleted: BTreeSet<u64>,
    /// Marks that were sent before such a request was answered.
    perhaps_deleted: BTreeSet<u64>,
    redirected: u64,
    tried_again: u64,
    /// The time at which each slot's last move was complete and known to all nodes.
    settled: [Duration; 3],
}

/// Minimum time between two moves of a slot. Two moves within one round trip can reorder two writes
/// that one client pipelined.
const REST: Duration = Duration::from_millis(150);

fn slot_of(key: &str) -> usize {
    TAGS.iter().position(|tag| key.starts_with(&format!("{{{tag}}}"))).expect("one of ours")
}

impl World {
    fn new(seed: u64) -> Self {
        let mut agent = Agent::new(&[address(0)], None, Limits::default(), seed, Duration::ZERO);
        agent.copy(&TAGS.map(|tag| Slot::of(tag.as_bytes())));
        let seat = |agent: &mut Agent| agent.open(SocketAddr::from(([127, 0, 0, 1], 99)));
        let callers = (0..4).map(|number| Caller {
            seat: seat(&mut agent),
            asked: VecDeque::new(),
            heard: Vec::new(),
            next: number << 32,
        });
        Self {
            callers: callers.collect(),
            agent,
            now: Duration::ZERO,
            random: Pcg64::seed_from_u64(seed),
            servers: (0..NODES).map(|_| Server { owner: [0, 1, 2], ..Server::default() }).collect(),
            wires: BTreeMap::new(),
            done: BTreeSet::new(),
            uncertain: BTreeSet::new(),
            key_of: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            copied: 0,
            reads: false,
            flushes: false,
            acknowledged_at_flush: BTreeMap::new(),
            deleted: BTreeSet::new(),
            perhaps_deleted: BTreeSet::new(),
            redirected: 0,
            tried_again: 0,
            settled: [Duration::ZERO; 3],
        }
    }

    fn some(&mut self, below: usize) -> usize {
        self.random.random_range(0..below)
    }

    /// A client sends a request, perhaps only a part of it.
    fn speak(&mut self, at: usize) {
        if self.callers[at].asked.len() > 12 {
            return;
        }
        let tag = TAGS[self.some(3)];
        let key = |number: usize| format!("{{{tag}}}{number}");
        let (one, other) = (key(self.some(KEYS)), key(self.some(KEYS)));
        self.callers[at].next += 1;
        let mark = self.callers[at].next;
        self.key_of.insert(mark, one.clone());
        let known = self.acknowledged.get(&one).copied().unwrap_or_default();
        let mut lines: Vec<(Kind, String)> = Vec::new();
        let draw = if self.reads { 4 } else { self.some(10) };
        match draw {
            0..=3 => lines.push((Kind::Push, format!("RPUSH {one} {mark}"))),
            4 => lines.push((Kind::Read, format!("LLEN {one}"))),
            5 => lines.push((Kind::Many, format!("EXISTS {one} {other}"))),
            6 => lines.push((Kind::Here, "PING".to_owned())),
            7 => {
                self.callers[at].next += 1;
                let second = format!("{{{}}}{}", TAGS[self.some(3)], self.some(KEYS));
                self.key_of.insert(mark + 1, second.clone());
                let words = format!("MSET {one} {mark} {second} {}", mark + 1);
                lines.push((Kind::Spread, words));
            }
            8 if self.flushes => {
                self.acknowledged_at_flush.insert(mark, self.done.clone());
                lines.push((Kind::Flush, "FLUSHALL".to_owned()));
            }
            _ => {
                lines.push((Kind::Begun, "MULTI".to_owned()));
                lines.push((Kind::Queued, format!("RPUSH {one} {mark}")));
                lines.push((Kind::Queued, format!("LLEN {other}")));
                lines.push((Kind::Executed, "EXEC".to_owned()));
            }
        }
        let mut bytes = Vec::new();
        for (kind, line) in lines {
            request::write_command(&mut bytes, &line.split(' ').collect::<Vec<_>>());
            let what = if kind == Kind::Read && !self.flushes { known } else { mark };
            self.callers[at].asked.push_back((kind, what));
        }
        let seat = self.callers[at].seat;
        let cut = self.some(bytes.len() + 1);
        for part in [&bytes[..cut], &bytes[cut..]] {
            self.agent.receive(seat, part, self.now).expect("the protocol");
        }
    }

    fn connect(&mut self) {
        for (link, to) in self.agent.wishes() {
            let node = usize::from(to.port()) - 1;
            if self.some(10) == 0 {
                self.agent.lost(link, "refused", self.now);
                continue;
            }
            self.wires.insert(link, Wire { node, ..Wire::default() });
            self.agent.connected(link);
        }
    }

    /// Delivers bytes of the connections, in chunks.
    fn carry(&mut self) {
        let links: Vec<usize> = self.wires.keys().copied().collect();
        for link in links {
            if let Some(output) = self.agent.link_output(link) {
                let count = self.random.random_range(0..=output.bytes().len());
                let bytes = output.bytes()[..count].to_vec();
                output.advance(count);
                self.wires.get_mut(&link).expect("a wire").to_node.extend(bytes);
            }
            let wire = self.wires.get_mut(&link).expect("a wire");
            let count = self.random.random_range(0..=wire.to_node.len());
            let arrived: Vec<u8> = wire.to_node.drain(..count).collect();
            wire.input.extend(arrived);
            self.serve(link);
            let wire = self.wires.get_mut(&link).expect("a wire");
            let count = self.random.random_range(0..=wire.from_node.len());
            let said: Vec<u8> = wire.from_node.drain(..count).collect();
            self.agent.node_receive(link, &said, self.now).expect("the protocol");
        }
        self.connect();
    }

    /// A connection breaks. Some of the bytes in flight still arrive.
    fn break_one(&mut self) {
        let links: Vec<usize> = self.wires.keys().copied().collect();
        let Some(&link) = links.get(self.random.random_range(0..links.len().max(1))) else {
            return;
        };
        let wire = self.wires.get_mut(&link).expect("a wire");
        let count = self.random.random_range(0..=wire.to_node.len());
        let arrived: Vec<u8> = wire.to_node.drain(..count).collect();
        wire.input.extend(arrived);
        self.serve(link);
        self.wires.remove(&link);
        self.agent.lost(link, "it broke", self.now);
    }

    fn listen(&mut self) {
        for at in 0..self.callers.len() {
            let seat = self.callers[at].seat;
            let output = self.agent.output(seat).expect("a client");
            let bytes = output.bytes().to_vec();
            output.advance(bytes.len());
            self.agent.heard(seat, self.now).expect("the protocol");
            self.callers[at].heard.extend(bytes);
            loop {
                let caller = &mut self.callers[at];
                let Some((reply, taken)) =
                    frame::decode(&caller.heard, &Limits::default()).expect("a reply")
                else {
                    break;
                };
                let (kind, mark) = caller.asked.pop_front().expect("an answer to something");
                let text = String::from_utf8_lossy(reply.bytes()).into_owned();
                caller.heard.drain(..taken);
                self.check(kind, mark, &text);
            }
        }
    }

    fn check(&mut self, kind: Kind, mark: u64, text: &str) {
        let writes = matches!(kind, Kind::Push | Kind::Executed | Kind::Spread);
        let marks = if kind == Kind::Spread { mark..=mark + 1 } else { mark..=mark };
        if kind == Kind::Flush {
            self.perhaps_deleted.extend(self.key_of.keys());
            let before = self.acknowledged_at_flush.remove(&mark).expect("it was sent");
            if text == "+OK\r\n" {
                self.deleted.extend(before);
            }
            return;
        }
        if text.starts_with("-UNCERTAIN") && writes {
            self.uncertain.extend(marks);
            return;
        }
        let fits = match kind {
            Kind::Push | Kind::Read | Kind::Many => text.starts_with(':'),
            Kind::Spread | Kind::Flush => text == "+OK\r\n",
            Kind::Begun => text == "+OK\r\n",
            Kind::Queued => text == "+QUEUED\r\n",
            Kind::Executed => text.starts_with("*2"),
            Kind::Here => text == "+PONG\r\n",
        };
        assert!(fits, "{kind:?} was answered with {text}");
        if kind == Kind::Read && !self.flushes {
            let read: u64 = text[1..].trim_end().parse().expect("a number");
            assert!(read >= mark, "{read} was read after {mark} were acknowledged");
        }
        if writes {
            for mark in marks {
                self.done.insert(mark);
                *self.acknowledged.entry(self.key_of[&mark].clone()).or_default() += 1;
            }
        }
    }

    fn step(&mut self, breaks: bool) {
        match self.some(20) {
            0..=5 => {
                let at = self.some(4);
                self.speak(at);
            }
            6..=12 => self.carry(),
            13..=15 => self.migrate(),
            16 if breaks && self.some(12) == 0 => self.break_one(),
            _ => self.listen(),
        }
        self.now += Duration::from_micros(self.random.random_range(0..1_500));
        if self.agent.next_timeout() <= self.now {
            self.agent.handle_timeout(self.now);
        }
        self.connect();
        assert_eq!(self.agent.held_bytes(), self.agent.recounted());
    }

    /// Waits until everything is answered, and checks what was written.
    fn judge(&mut self) {
        for turn in 0..100_000 {
            if self.callers.iter().all(|caller| caller.asked.is_empty()) {
                break;
            }
            assert!(turn < 99_999, "a request is never answered");
            self.now += Duration::from_millis(1);
            self.agent.handle_timeout(self.now);
            self.connect();
            self.carry();
            self.migrate();
            self.listen();
        }
        let mut written: BTreeMap<u64, u32> = BTreeMap::new();
        for server in &self.servers {
            for (key, list) in &server.keys {
                let mut last: BTreeMap<u64, u64> = BTreeMap::new();
                for &mark in list {
                    *written.entry(mark).or_default() += 1;
                    let before = last.insert(mark >> 32, mark).unwrap_or_default();
                    assert!(
                        before <= mark,
                        "{key}: one client's writes were reordered: {before} {mark}"
                    );
                }
            }
        }
        for (mark, times) in &written {
            assert_eq!(*times, 1, "{mark} was written more than once");
            assert!(
                self.done.contains(mark) || self.uncertain.contains(mark),
                "{mark} was refused and written"
            );
        }
        let back: Vec<&u64> =
            self.deleted.iter().filter(|mark| written.contains_key(mark)).collect();
        assert!(back.is_empty(), "deleted and still there: {back:?}");
        let kept = self.done.difference(&self.perhaps_deleted);
        let lost: Vec<&u64> = kept.filter(|mark| !written.contains_key(mark)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    }
}

fn run(seeds: std::ops::Range<u64>, breaks: bool) -> (u64, u64, usize, usize) {
    run_with(seeds, breaks, false)
}

fn run_with(seeds: std::ops::Range<u64>, breaks: bool, flushes: bool) -> (u64, u64, usize, usize) {
    let mut seen = (0, 0, 0, 0);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.flushes = flushes;
            for step in 0..6_000 {
                world.reads = step % 1_000 >= 600;
                world.step(breaks);
            }
            let report = world.agent.report(world.now);
            world.copied += report.slots.iter().map(|(_, counts)| counts.copied).sum::<u64>();
            world.judge();
            assert!(flushes || world.copied > 0, "nothing was answered from a copy");
            assert!(!flushes || world.deleted.len() > 100, "nothing was deleted");
            (world.redirected, world.tried_again, world.done.len(), world.uncertain.len())
        });
        let (redirected, again, done, uncertain) =
            outcome.unwrap_or_else(|_| panic!("seed {seed}, breaks {breaks}"));
        seen = (seen.0 + redirected, seen.1 + again, seen.2 + done, seen.3 + uncertain);
    }
    seen
}

#[test]
fn slots_move_and_no_client_notices() {
    let (redirected, again, done, uncertain) = run(0..30, false);
    assert!(redirected > 500 && again > 10 && done > 5_000, "{redirected} {again} {done}");
    assert_eq!(uncertain, 0);
}

#[test]
fn connections_break_and_no_write_is_lost_or_repeated() {
    let (redirected, _, done, uncertain) = run(100..160, true);
    assert!(redirected > 500 && done > 5_000 && uncertain > 10, "{redirected} {done} {uncertain}");
}
