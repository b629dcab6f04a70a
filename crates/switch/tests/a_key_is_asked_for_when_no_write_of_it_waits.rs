//! The cache requests a key from memcached only while no forwarded write of it is unanswered,
//! whichever client wrote it: the reply is then not older than a write that is applied later.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use support::written::{SERVER, STORED, cache, named, set};
use support::{FLAGS, RST, SYN, at, data_plane, end, small, value};
use switch::{
    asking::Asking,
    frame::{Frame, Transport},
    install::{Room, Value},
    plane::{DataPlane, PASS, TRANSMIT},
};
use wire::memcache::{frame::Frame as Datagram, item::Item};

/// After every delay before a key may be requested.
const LATER: Duration = Duration::from_secs(1 << 32);
/// Word of `struct flow` that holds the time of the last packet.
const AT_NS: usize = 5;

struct Connection {
    client: String,
    sequence: u32,
    answer: u32,
}

impl Connection {
    fn open(plane: &mut DataPlane, port: u16) -> Self {
        let mut one = Self { client: format!("10.0.0.1:{port}"), sequence: 7, answer: 7 };
        one.begin(plane);
        one
    }

    fn begin(&mut self, plane: &mut DataPlane) {
        let mut syn = self.frame().bytes(b"");
        syn[FLAGS] = SYN;
        plane.run(&syn, 1).expect("it runs");
        self.sequence += 1;
    }

    fn frame(&self) -> Frame {
        let frame = Frame::udp(at(&self.client), at(SERVER));
        Frame { transport: Transport::Tcp, sequence: self.sequence, ..frame }
    }

    fn say(&mut self, plane: &mut DataPlane, text: &str) {
        let frame = self.frame().bytes(text.as_bytes());
        assert_eq!(plane.run(&frame, 1).expect("it runs").verdict, PASS);
        self.sequence += text.len() as u32;
    }

    /// Retransmits the last segment.
    fn repeat(&mut self, plane: &mut DataPlane, text: &str) {
        self.sequence -= text.len() as u32;
        self.say(plane, text);
    }

    fn hear(&mut self, plane: &mut DataPlane, text: &str) {
        let (source, destination) = (at(SERVER), at(&self.client));
        let there = Frame { source, destination, sequence: self.answer, ..self.frame() };
        plane.leave(&there.bytes(text.as_bytes())).expect("it runs");
        self.answer += text.len() as u32;
    }

    fn reset(&mut self, plane: &mut DataPlane) {
        let mut rst = self.frame().bytes(b"");
        rst[FLAGS] = RST;
        plane.run(&rst, 1).expect("it runs");
    }
}

/// A datagram to the server, or its reply.
fn datagram(plane: &mut DataPlane, number: u16, text: &str, is_answer: bool) {
    let payload = Datagram::whole(number, text.as_bytes()).bytes();
    let (client, server) = (at("10.0.0.1:9"), at(SERVER));
    if is_answer {
        plane.leave(&Frame::udp(server, client).bytes(&payload)).expect("it runs");
    } else {
        plane.run(&Frame::udp(client, server).bytes(&payload), 1).expect("it runs");
    }
}

/// Whether key `a` may be requested once all delays are over.
fn may_ask(plane: &DataPlane) -> bool {
    matches!(plane.asking(0, LATER), Asking::Now { .. })
}

fn silent_for(plane: &DataPlane, time: Duration) {
    for flow in plane.flows.iter().filter(|flow| flow[AT_NS].load(Relaxed) != 0) {
        flow[AT_NS].fetch_sub(time.as_nanos() as u64, Relaxed);
    }
}

/// The controller requests key `a` if it may, and receives this reply.
fn fill(plane: &DataPlane, said: &[u8]) {
    if let Asking::Now { version, epoch } = plane.asking(0, LATER) {
        let item = Item { flags: 0, lives_s: None, value: said.to_vec() };
        plane.fill(0, version, &Value { epoch, ..value(&item.get_text(b"a")) });
    }
}

fn is_served(plane: &mut DataPlane) -> bool {
    let get = Datagram::whole(1, b"get a\r\n").bytes();
    let frame = Frame::udp(at("10.0.0.9:9"), at(SERVER)).bytes(&get);
    plane.run(&frame, 1).expect("it runs").verdict == TRANSMIT
}

/// A client that reads from the server sees the second write once it is applied; after that, the
/// first value must not be served.
#[test]
fn what_is_asked_for_before_a_second_write_is_applied_is_not_served() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let (mut one, mut other) = (Connection::open(&mut plane, 1), Connection::open(&mut plane, 2));
    one.say(&mut plane, &set("a"));
    other.say(&mut plane, &set("a"));
    one.hear(&mut plane, STORED);
    fill(&plane, b"1");
    assert!(!is_served(&mut plane), "the second is not applied");
    other.hear(&mut plane, STORED);
    fill(&plane, b"2");
    assert!(is_served(&mut plane));
}

#[test]
fn the_writes_of_two_connections_are_answered_in_any_order() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    for first in [0, 1] {
        let mut both = [1, 3].map(|port| Connection::open(&mut plane, port + first as u16));
        both.iter_mut().for_each(|one| one.say(&mut plane, &set("a")));
        both[first].hear(&mut plane, STORED);
        assert!(!may_ask(&plane), "{first}");
        // Other requests on the connection make no difference.
        both[first].say(&mut plane, &set("b"));
        both[first].hear(&mut plane, STORED);
        assert!(!may_ask(&plane), "{first}");
        both[1 - first].hear(&mut plane, STORED);
        assert!(may_ask(&plane), "{first}");
    }
}

#[test]
fn one_connection_says_more_before_it_is_answered() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let mut one = Connection::open(&mut plane, 1);
    // The ring of write slots wraps around between the two writes.
    for before in 0..40 {
        one.say(&mut plane, &set("b"));
        one.hear(&mut plane, STORED);
        one.say(&mut plane, &set("a").repeat(2));
        one.hear(&mut plane, STORED);
        assert!(!may_ask(&plane), "{before}");
        one.hear(&mut plane, STORED);
        assert!(may_ask(&plane), "{before}");
    }
}

#[test]
fn datagrams_write_too() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let mut one = Connection::open(&mut plane, 1);
    one.say(&mut plane, &set("a"));
    datagram(&mut plane, 1, &set("a"), false);
    datagram(&mut plane, 2, &set("a"), false);
    one.hear(&mut plane, STORED);
    assert!(!may_ask(&plane));
    datagram(&mut plane, 2, STORED, true);
    assert!(!may_ask(&plane));
    datagram(&mut plane, 1, STORED, true);
    assert!(may_ask(&plane));
}

/// The time at which the quiet write is applied is unknown: the cache waits even after another
/// connection got its reply.
#[test]
fn a_quiet_write_is_waited_for_though_another_is_answered() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let (mut one, mut other) = (Connection::open(&mut plane, 1), Connection::open(&mut plane, 2));
    one.say(&mut plane, &set("a"));
    other.say(&mut plane, "set a 0 0 1 noreply\r\nx\r\n");
    let Asking::Later(from) = plane.asking(0, Duration::ZERO) else {
        panic!("it may be asked for")
    };
    one.hear(&mut plane, STORED);
    assert_eq!(plane.asking(0, Duration::ZERO), Asking::Later(from));
    assert!(may_ask(&plane));
}

/// The first segment was lost after the program, and so may the second be.
#[test]
fn what_is_said_again_waits_as_before() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let mut one = Connection::open(&mut plane, 1);
    one.say(&mut plane, &set("a"));
    one.repeat(&mut plane, &set("a"));
    assert!(!may_ask(&plane));
    one.hear(&mut plane, STORED);
    assert!(may_ask(&plane));
}

#[test]
fn what_was_written_before_the_key_was_cached_is_waited_for() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut one = Connection::open(&mut plane, 1);
    one.say(&mut plane, &set("a"));
    cache(&mut plane);
    assert!(!may_ask(&plane));
    one.hear(&mut plane, STORED);
    assert!(may_ask(&plane));
}

#[test]
fn a_get_and_a_meta_get_of_a_key_wait_for_the_same() {
    let Some(mut plane) = data_plane(small()) else { return };
    let key = named(&plane, SERVER, "a", true);
    assert!(plane.admit(0, &key, Room::default(), 100));
    let mut one = Connection::open(&mut plane, 1);
    let mut other = Connection::open(&mut plane, 2);
    one.say(&mut plane, &set("a"));
    other.say(&mut plane, &set("a"));
    one.hear(&mut plane, STORED);
    assert!(!may_ask(&plane));
    other.hear(&mut plane, STORED);
    assert!(may_ask(&plane));
}

/// More writes than are remembered individually: nothing is stored for a second.
#[test]
fn a_write_that_is_remembered_no_more_keeps_everything_from_being_asked_for() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let mut one = Connection::open(&mut plane, 1);
    one.say(&mut plane, &set("a"));
    one.say(&mut plane, &set("b").repeat(15));
    assert_eq!(plane.shared().fills_blocked_ns.load(Relaxed), 0);
    one.say(&mut plane, &set("b"));
    assert_ne!(plane.shared().fills_blocked_ns.load(Relaxed), 0);
}

/// No reply will come: what blocks the key expires, and leaves nothing behind.
#[test]
fn a_connection_that_is_gone_holds_no_key() {
    let Some(mut plane) = data_plane(small()) else { return };
    type Going = fn(&mut DataPlane, &mut Connection);
    let goings: [(&str, Going); 5] = [
        ("silent", |plane, _| silent_for(plane, Duration::from_secs(5))),
        ("reset", |plane, one| {
            one.reset(plane);
            cache(plane);
        }),
        ("ended", |plane, one| end(plane, &one.frame())),
        ("anew", |plane, one| {
            one.sequence += 1_000_000;
            one.begin(plane);
        }),
        ("forgotten", |plane, _| plane.forget_connections()),
    ];
    let now = || {
        let time = clock_gettime(ClockId::Monotonic);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    for (port, (going, go)) in (1..).zip(goings) {
        cache(&mut plane);
        let mut one = Connection::open(&mut plane, port);
        let mut other = Connection::open(&mut plane, 100 + port);
        one.say(&mut plane, &set("a").repeat(3));
        other.say(&mut plane, &set("a"));
        other.hear(&mut plane, STORED);
        plane.end_holds(now());
        assert!(!may_ask(&plane), "{going}");
        go(&mut plane, &mut one);
        plane.end_holds(now());
        assert!(may_ask(&plane), "{going}");
        // No counter was decremented twice.
        let mut other = Connection::open(&mut plane, 200 + port);
        other.say(&mut plane, &set("a"));
        assert!(!may_ask(&plane), "{going}");
        other.hear(&mut plane, STORED);
        assert!(may_ask(&plane), "{going}");
        silent_for(&plane, Duration::from_secs(120));
    }
}
