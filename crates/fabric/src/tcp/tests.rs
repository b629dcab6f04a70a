//! Over a link that loses and delays, segment by segment what ns-3 sends (`lossy.txt`; its maker is
//! `crates/bench/ns3/lossy.cc`).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt::Write,
};

use super::{Connection, NEVER, Tuning};
use crate::packet::{Later, Segment, flag};

const VECTORS: &str = include_str!("lossy.txt");
const PUBLISHED: Tuning = Tuning { duplicates_max: 2_048, clock_ns: 1_000_000, dctcp: false };
const START_NS: u64 = 1_000;
const END_NS: u64 = 4_000_000_000;

/// Which packets it loses, and how long others take.
struct Link {
    /// Counted as they arrive.
    lost: [Vec<u32>; 2],
    arrived: [u32; 2],
    /// From when on, how long it takes.
    delays: BTreeMap<u64, u64>,
}

/// Events of one time, in the order in which they were scheduled.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrives(usize),
    Later(Later, u64),
}

struct World {
    connection: Connection,
    link: Link,
    /// Time, order; what happens is in `events` at that place.
    calendar: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Event>,
    packets: Vec<(Segment, u64)>,
    segments: Vec<Segment>,
    said: String,
}

impl World {
    fn new(scenario: &str) -> Self {
        let fields: Vec<&str> = scenario.split(' ').collect();
        let [bytes, to_server, to_client, delays] = fields[..] else { panic!("{scenario}") };
        let numbers =
            |text: &str| text.split(',').filter_map(|number| number.parse().ok()).collect();
        let delay = |text: &str| {
            let (at, delay) = text.split_once(':').expect("at:delay");
            (at.parse().expect("a time"), delay.parse().expect("a delay"))
        };
        let mut segments = Vec::new();
        let bytes = bytes.parse().expect("bytes");
        let connection = Connection::connect(&mut segments, bytes, &PUBLISHED, START_NS);
        let mut world = Self {
            connection,
            link: Link {
                lost: [numbers(to_server), numbers(to_client)],
                arrived: [0; 2],
                delays: delays.split(',').map(delay).collect(),
            },
            calendar: BinaryHeap::new(),
            events: Vec::new(),
            packets: Vec::new(),
            segments,
            said: String::new(),
        };
        world.send(START_NS);
        world
    }

    fn set(&mut self, at_ns: u64, event: Event) {
        self.calendar.push(Reverse((at_ns, self.events.len())));
        self.events.push(event);
    }

    fn send(&mut self, now_ns: u64) {
        for segment in std::mem::take(&mut self.segments) {
            say(&mut self.said, &segment, now_ns);
            let delay_ns = self.link.delays.range(..=now_ns).next_back().map_or(0, |each| *each.1);
            self.packets.push((segment, now_ns));
            self.set(now_ns + delay_ns, Event::Arrives(self.packets.len() - 1));
        }
    }

    /// Returns a log of the segments sent until `END_NS`.
    fn run(mut self) -> String {
        loop {
            let dues = self.connection.dues_ns();
            let due_ns = dues[0].min(dues[1]);
            let event_ns = self.calendar.peek().map_or(NEVER, |Reverse(next)| next.0);
            let now_ns = due_ns.min(event_ns);
            if now_ns >= END_NS {
                return self.said;
            }
            if due_ns <= event_ns {
                self.connection.wake(&mut self.segments, dues[0] == due_ns, now_ns);
            } else if let Some(Reverse((_, place))) = self.calendar.pop() {
                self.happen(self.events[place], now_ns);
            }
            self.send(now_ns);
        }
    }

    fn happen(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Arrives(packet) => {
                let (segment, sent_ns) = self.packets[packet];
                let to_client = usize::from(segment.flags & flag::REVERSE != 0);
                let number = self.link.arrived[to_client];
                self.link.arrived[to_client] += 1;
                if self.link.lost[to_client].contains(&number) {
                    return;
                }
                let segments = &mut self.segments;
                let arrival =
                    self.connection.receive(segments, &segment, sent_ns, &PUBLISHED, now_ns);
                if let Some(later) = arrival.later {
                    self.set(now_ns, Event::Later(later, sent_ns));
                }
            }
            Event::Later(Later::Accept, sent_ns) => {
                self.connection.accept(&mut self.segments, sent_ns, now_ns);
            }
            Event::Later(Later::Connected, _) => {
                self.set(now_ns + 1, Event::Later(Later::Write, 0));
            }
            Event::Later(Later::Write, _) => self.connection.write(&mut self.segments, now_ns),
        }
    }
}

fn say(said: &mut String, segment: &Segment, now_ns: u64) {
    if segment.flags & (flag::RST | flag::REVERSE) == flag::RST {
        // Sent for an end that is gone: the socket of ns-3 is gone there, too.
        return;
    }
    let who = if segment.flags & flag::REVERSE == 0 { 'c' } else { 's' };
    let names = [(flag::FIN, "FIN"), (flag::SYN, "SYN"), (flag::RST, "RST"), (flag::ACK, "ACK")];
    let flags = names.iter().filter(|(flag, _)| segment.flags & flag != 0);
    let flags: Vec<&str> = flags.map(|(_, name)| *name).collect();
    let Segment { seq, ack, payload, .. } = segment;
    let _ = write!(said, "{now_ns} {who} {} {seq} {ack} {payload}", flags.join("+"));
    for (from, to) in segment.sack.iter().take(segment.sack_count.into()) {
        let _ = write!(said, " {from}-{to}");
    }
    said.push('\n');
}

#[test]
fn lost_and_late_segments_are_answered_as_ns_3_does() {
    let mut wrong = String::new();
    let scenarios = VECTORS.split("> ").filter(|each| !each.is_empty());
    let mut count = 0;
    for vector in scenarios {
        count += 1;
        let (scenario, expected) = vector.split_once('\n').expect("a scenario and its segments");
        let got = World::new(scenario).run();
        let lines = expected.lines().zip(got.lines()).enumerate();
        let first = lines.clone().find(|(_, (expected, got))| expected != got);
        if let Some((line, (expected, got))) = first {
            let _ = writeln!(wrong, "{scenario}: line {line}: expected {expected}, got {got}");
        } else if expected.lines().count() != got.lines().count() {
            let (expected, got) = (expected.lines().count(), got.lines().count());
            let _ = writeln!(wrong, "{scenario}: expected {expected} segments, got {got}");
        }
    }
    assert!(count > 20, "{count} scenarios");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// ns-3 stops no run before its last event: a server that answers a SYN of long ago does so until
/// the client has forgotten the connection, after 240 s, and answers by a reset.
#[test]
fn a_late_handshake_goes_on_until_the_client_has_forgotten() {
    let mut connection = Connection::gone(&PUBLISHED, 0);
    let (mut segments, mut now_ns, mut last_heard_ns) = (Vec::new(), 0, 0);
    connection.accept(&mut segments, 0, 0);
    while !connection.over() {
        for segment in std::mem::take(&mut segments) {
            let arrival = connection.receive(&mut segments, &segment, now_ns, &PUBLISHED, now_ns);
            if arrival.counted {
                last_heard_ns = now_ns;
            }
        }
        if segments.is_empty() && !connection.over() {
            let dues_ns = connection.dues_ns();
            now_ns = dues_ns[0].min(dues_ns[1]);
            assert_ne!(now_ns, NEVER, "no event ends the run");
            connection.wake(&mut segments, dues_ns[0] == now_ns, now_ns);
        }
    }
    assert_eq!((last_heard_ns, now_ns), (131_071_000_000, 262_143_000_000));
}
