//! Random conversations with a slow memcached, through the real programs: requests are pipelined,
//! segmented anywhere and retransmitted, and so are replies; values look like commands or replies,
//! and the cache requests keys at any time. No client is served a value that was replaced by a
//! write whose reply has left. If all writes have replies, and the cache requests keys only when it
//! may, no client is served a replaced value at all.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::{collections::VecDeque, sync::atomic::Ordering::Relaxed, time::Duration};

use support::{at, data_plane, small, value, written::named};
use switch::{
    asking::Asking,
    frame::{Frame, Transport},
    install::{Room, Value},
    layout::UNSEEN_MAX,
    plane::{DataPlane, PASS},
};
use wire::memcache::{frame::Frame as Datagram, item::Item};

const SERVER: &str = "10.0.0.2:11211";
const KEYS: usize = 3;
const CONNECTIONS: u16 = 3;
const STEPS: u32 = 1_500;
const MISLEADING: u32 = 7;
/// Maximum number of requests in flight on a connection where all written keys are known: fewer
/// than are remembered.
const ON_THEIR_WAY_MAX: usize = 12;
/// After every delay before a key may be requested.
const LATER: Duration = Duration::from_secs(1 << 32);

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// A request in flight.
struct Asked {
    /// Its end in the bytes sent by the client.
    end: usize,
    /// The key and the value written; `None` for a read, or where there is no key.
    write: Option<(usize, u32)>,
    /// Key that is read.
    read: Option<usize>,
    /// A meta get: its reply is the value and the end of its line.
    is_meta: bool,
    answer: &'static str,
}

/// An executed request.
struct Done {
    /// The end of its answer in the bytes sent by the server.
    end: usize,
    /// The written key, and the number of the write among those of the key.
    write: Option<(usize, usize)>,
}

#[derive(Default)]
struct Connection {
    said: Vec<u8>,
    passed: usize,
    asked: VecDeque<Asked>,
    answers: Vec<u8>,
    left: usize,
    done: VecDeque<Done>,
    /// Executed writes without a reply of their own that has left.
    quiet: Vec<(usize, usize)>,
    /// The end of the last reply that was sent completely.
    told: usize,
    /// Start and end of segments that may be retransmitted.
    segments: Vec<(usize, usize)>,
    answered: Vec<(usize, usize)>,
}

/// The value of a key after each of its writes; the first is the value before them.
#[derive(Default)]
struct History {
    values: Vec<u32>,
    /// The last write whose value a client has received.
    told: usize,
}

struct World<'a> {
    plane: &'a mut DataPlane,
    random: Random,
    connections: Vec<Connection>,
    keys: Vec<History>,
    written: u32,
    /// All requests can be counted.
    is_clear: bool,
    /// Every write has a reply, and none is split: the cache requests keys only when it may.
    is_known: bool,
    /// Requests of the cache in flight: key, version, epoch, and the server's value.
    questions: Vec<(usize, u64, u64, u32)>,
    hits: u32,
}

/// The values look like replies, one in `MISLEADING` like commands.
fn text_of(number: u32) -> String {
    let looks = ["", "\r\nSTORED", "\r\nEND\r\nSTORED", "\r\nVALUE k1 0 9"];
    let misleads = if number.is_multiple_of(MISLEADING) { "\r\nset k0 0 0 1" } else { "" };
    format!("{number}{}{misleads}", looks[number as usize % looks.len()])
}

fn frame(connection: usize, to_server: bool, sequence: usize, payload: &[u8]) -> Vec<u8> {
    let client = format!("10.0.0.1:{}", 1000 + connection);
    let (source, destination) =
        if to_server { (at(&client), at(SERVER)) } else { (at(SERVER), at(&client)) };
    let transport = Transport::Tcp;
    let sequence = (u32::MAX - 500).wrapping_add(sequence as u32);
    Frame { transport, sequence, ..Frame::udp(source, destination) }.bytes(payload)
}

impl<'a> World<'a> {
    fn new(plane: &'a mut DataPlane, seed: u64) -> Self {
        plane.clear().expect("it is cleared");
        plane.forget_connections();
        // The program is attached while connections wait, or was attached long ago.
        let is_late = (seed / 2).is_multiple_of(2);
        plane.shared().watched_ns.store(u64::from(!is_late), Relaxed);
        for number in 0..KEYS {
            let key = named(plane, SERVER, &format!("k{number}"), false);
            let place = number as u32;
            assert!(plane.admit(place, &key, Room { place, bitmap: 0 }, 100));
        }
        let connections = (0..CONNECTIONS).map(|_| Connection::default()).collect();
        let keys = (0..KEYS).map(|_| History { values: vec![0], told: 0 }).collect();
        let mut world = Self {
            plane,
            random: Random(SplitMix64::seed_from_u64(seed)),
            connections,
            keys,
            written: 0,
            is_clear: seed.is_multiple_of(2),
            is_known: seed % 8 == 2,
            questions: Vec::new(),
            hits: 0,
        };
        if is_late {
            (0..CONNECTIONS.into()).for_each(|number| world.pass_unseen(number));
        }
        world
    }

    /// Traffic from before the program was attached.
    fn pass_unseen(&mut self, number: usize) {
        for _ in 0..self.random.below(UNSEEN_MAX + 1) {
            self.say(number);
        }
        let one = &mut self.connections[number];
        one.passed = one.said.len();
    }

    fn step(&mut self) {
        let number = self.random.below(CONNECTIONS.into());
        match self.random.below(12) {
            0..2 => self.say(number),
            2..5 => self.pass(number),
            5..7 => self.carry_out(number),
            7..9 => {
                self.leave(number);
                self.look();
            }
            9..11 => self.ask(),
            _ => self.fill(),
        }
    }

    /// A client sends another request, perhaps before the reply to the last.
    fn say(&mut self, number: usize) {
        let one = &self.connections[number];
        if self.is_known && one.asked.len() + one.done.len() >= ON_THEIR_WAY_MAX {
            return;
        }
        let key = self.random.below(KEYS);
        self.written += 1;
        if self.is_clear && self.written.is_multiple_of(MISLEADING) {
            self.written += 1;
        }
        let value = text_of(self.written);
        let (bytes, write) = (value.len(), Some((key, self.written)));
        let kinds = if self.is_clear { 13 } else { 17 };
        let mut is_meta = false;
        let (said, write, read, answer) = match self.random.below(kinds) {
            0..4 => (format!("set k{key} 0 0 {bytes}\r\n{value}\r\n"), write, None, "STORED\r\n"),
            4 if !self.is_known => {
                (format!("set k{key} 0 0 {bytes} noreply\r\n{value}\r\n"), write, None, "")
            }
            5 => (format!("ms k{key} {bytes}\r\n{value}\r\n"), write, None, "HD\r\n"),
            6 => (
                format!("add k{key} 0 0 {bytes}\r\n{value}\r\n"),
                None,
                None,
                "SERVER_ERROR out of memory storing object\r\n",
            ),
            7 => ("mn\r\n".into(), None, None, "MN\r\n"),
            8 => ("version\r\n".into(), None, None, "VERSION 1.6.18\r\n"),
            4 | 9..13 => (format!("get k{key}\r\n"), None, Some(key), ""),
            13 => (format!("ms k{key} {bytes} q\r\n{value}\r\n"), write, None, ""),
            // Whether it will be answered is unknown.
            14 => {
                is_meta = true;
                (format!("mg k{key} v q\r\n"), None, Some(key), "")
            }
            15 => (format!("mg none{key} v q\r\n"), None, None, ""),
            // A failed store is reported despite the quiet flag.
            _ => (format!("ms k{key} {bytes} q C7\r\n{value}\r\n"), None, None, "NS\r\n"),
        };
        let one = &mut self.connections[number];
        one.said.extend(said.as_bytes());
        one.asked.push_back(Asked { end: one.said.len(), write, read, is_meta, answer });
    }

    /// A segment passes, or is retransmitted.
    fn pass(&mut self, number: usize) {
        let one = &mut self.connections[number];
        let again = self.random.below(6) == 0 && !one.segments.is_empty();
        let (from, to) = if again {
            one.segments[self.random.below(one.segments.len())]
        } else {
            // Usually the rest of the output.
            let left = one.said.len() - one.passed;
            let is_cut = !self.is_known && self.random.below(3) == 0;
            let bytes = if is_cut { self.random.below(left + 1) } else { left };
            (one.passed, one.passed + bytes)
        };
        let bytes = frame(number, true, from, &one.said[from..to]);
        assert_eq!(self.plane.run(&bytes, 1).expect("it runs").verdict, PASS);
        if !again && to > from {
            one.passed = to;
            one.segments.push((from, to));
        }
    }

    /// The server executes the next request of a connection.
    fn carry_out(&mut self, number: usize) {
        let one = &mut self.connections[number];
        let Some(asked) = one.asked.pop_front_if(|asked| asked.end <= one.passed) else { return };
        let write = asked.write.map(|(key, value)| {
            self.keys[key].values.push(value);
            (key, self.keys[key].values.len() - 1)
        });
        if let Some(key) = asked.read {
            let value = text_of(*self.keys[key].values.last().expect("there is one"));
            let bytes = value.len();
            let text = match asked.is_meta {
                true => format!("VA {bytes}\r\n{value}\r\n"),
                false => format!("VALUE k{key} 0 {bytes}\r\n{value}\r\nEND\r\n"),
            };
            one.answers.extend(text.as_bytes());
        }
        one.answers.extend(asked.answer.as_bytes());
        one.done.push_back(Done { end: one.answers.len(), write });
    }

    /// A segment of the server's replies leaves, or is retransmitted.
    fn leave(&mut self, number: usize) {
        let one = &mut self.connections[number];
        let again = self.random.below(6) == 0 && !one.answered.is_empty();
        let (from, to) = if again {
            one.answered[self.random.below(one.answered.len())]
        } else {
            let left = one.answers.len() - one.left;
            let bytes = if self.random.below(3) == 0 { self.random.below(left + 1) } else { left };
            (one.left, one.left + bytes)
        };
        if to == from {
            return;
        }
        let bytes = frame(number, false, from, &one.answers[from..to]);
        self.plane.leave(&bytes).expect("it runs");
        if again {
            return;
        }
        one.answered.push((from, to));
        one.left = to;
        // A reply shows that the quiet writes before it are done.
        while let Some(done) = one.done.pop_front_if(|done| done.end <= to) {
            one.quiet.extend(done.write);
            if done.end > one.told {
                one.told = done.end;
                for (key, write) in one.quiet.drain(..) {
                    self.keys[key].told = self.keys[key].told.max(write);
                }
            }
        }
    }

    /// The controller requests a key and gets the reply at once, whatever is in flight.
    fn ask(&mut self) {
        let key = self.random.below(KEYS);
        if self.is_known && !matches!(self.plane.asking(key as u32, LATER), Asking::Now { .. }) {
            return;
        }
        let (version, _) = self.plane.version(key as u32).expect("an entry");
        let epoch = self.plane.shared().epoch.load(Relaxed);
        let value = *self.keys[key].values.last().expect("there is one");
        self.questions.push((key, version, epoch, value));
        // Occasionally the server delays this reply, too.
        if self.random.below(4) > 0 {
            self.fill();
        }
    }

    /// The newest answer to the controller is stored.
    fn fill(&mut self) {
        let Some((key, version, epoch, number)) = self.questions.pop() else { return };
        let item = Item { flags: 0, lives_s: None, value: text_of(number).into_bytes() };
        let text = item.get_text(format!("k{key}").as_bytes());
        self.plane.fill(key as u32, version, &Value { epoch, ..value(&text) });
    }

    fn look(&mut self) {
        for (key, history) in self.keys.iter().enumerate() {
            let get = Datagram::whole(1, format!("get k{key}\r\n").as_bytes()).bytes();
            let asked = Frame::udp(at("10.0.0.9:9"), at(SERVER)).bytes(&get);
            let outcome = self.plane.run(&asked, 1).expect("it runs");
            if outcome.verdict == PASS {
                continue;
            }
            self.hits += 1;
            let (_, payload) = Frame::read(&outcome.frame).expect("well-formed");
            let said = Datagram::decode(&payload).expect("a datagram").payload.to_vec();
            let known = if self.is_known { history.values.len() - 1 } else { history.told };
            let current = history.values.iter().skip(known).any(|number| {
                let item = Item { flags: 0, lives_s: None, value: text_of(*number).into_bytes() };
                let text = item.get_text(format!("k{key}").as_bytes());
                said.starts_with(&text) && said.len() == text.len() + 5
            });
            assert!(
                current,
                "k{key}: a client received {}; its values are {:?}, and clients had seen {} of them",
                said.escape_ascii(),
                history.values,
                history.told
            );
        }
    }
}

fn converse(seeds: std::ops::Range<u64>) {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut hits = [0; 3];
    for seed in seeds.clone() {
        println!("seed {seed}");
        let mut world = World::new(&mut plane, seed);
        (0..STEPS).for_each(|_| world.step());
        hits[usize::from(world.is_clear) + usize::from(world.is_known)] += world.hits;
    }
    println!("{hits:?} hits in seeds {seeds:?}");
    assert!(hits.iter().all(|hits| *hits > 0), "nothing was ever served");
}

#[test]
fn a_thousand_seeds() {
    converse(0..1_000);
}

#[test]
#[ignore = "minutes: make soak"]
fn many_seeds() {
    converse(1_000..20_000);
}
