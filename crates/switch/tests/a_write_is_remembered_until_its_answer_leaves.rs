//! What a connection to a memcached wrote is forgotten again when its answer leaves, whenever that is,
//! and not with the answers behind it.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::sync::atomic::Ordering::Relaxed;

use support::{FLAGS, SYN, at, data_plane, end, small, value};
use switch::{
    frame::{Frame, Transport},
    install::{Key, Room, Value},
    layout::{ANSWERED, Protocol},
    name,
    plane::{DataPlane, PASS, TRANSMIT},
};
use wire::memcache::{frame::Frame as Datagram, item::Item};

const SERVER: &str = "10.0.0.2:11211";
const KEYS: [&str; 3] = ["a", "b", "c"];
const STORED: &str = "STORED\r\n";

fn set(key: &str) -> String {
    format!("set {key} 0 0 1\r\nx\r\n")
}

/// Caches all keys afresh: what is read while a write waits may be old.
fn cache(plane: &mut DataPlane) {
    for (number, key) in KEYS.iter().enumerate() {
        let key = Key {
            name: name::memcache(key.as_bytes(), at(SERVER), false, plane.config().seed),
            bytes: key.as_bytes().to_vec(),
            server: at(SERVER),
            protocol: Protocol::Memcache,
            lease: 0,
        };
        let number = number as u32;
        assert!(plane.admit(number, &key, Room { place: number, bitmap: 0 }, 100));
        let epoch = plane.shared().epoch.load(Relaxed);
        let item = Item { flags: 0, lives_s: None, value: b"old".to_vec() };
        let text = Value { epoch, ..value(&item.get_text(&key.bytes)) };
        assert!(plane.fill(number, 100, &text));
    }
}

fn gone(plane: &mut DataPlane) -> String {
    let is_served = |plane: &mut DataPlane, key: &str| {
        let get = Datagram::whole(1, format!("get {key}\r\n").as_bytes()).bytes();
        let frame = Frame::udp(at("10.0.0.9:9"), at(SERVER)).bytes(&get);
        plane.run(&frame, 1).expect("it runs").verdict == TRANSMIT
    };
    KEYS.into_iter().filter(|key| !is_served(plane, key)).collect()
}

struct Connection<'a> {
    plane: &'a mut DataPlane,
    client: String,
    sequence: u32,
    answer: u32,
}

impl<'a> Connection<'a> {
    fn open(plane: &'a mut DataPlane, port: u16) -> Self {
        // Numbers come round.
        let mut opened =
            Self { plane, client: format!("10.0.0.1:{port}"), sequence: u32::MAX - 40, answer: 7 };
        let mut syn = opened.frame(true).bytes(b"");
        syn[FLAGS] = SYN;
        opened.plane.run(&syn, 1).expect("it runs");
        opened.sequence = opened.sequence.wrapping_add(1);
        opened
    }

    fn frame(&self, to_server: bool) -> Frame {
        let there = Frame { transport: Transport::Tcp, ..Frame::udp(at(&self.client), at(SERVER)) };
        if to_server {
            Frame { sequence: self.sequence, ..there }
        } else {
            let (source, destination) = (there.destination, there.source);
            Frame { source, destination, sequence: self.answer, ..there }
        }
    }

    fn say(&mut self, text: &str) {
        let frame = self.frame(true).bytes(text.as_bytes());
        assert_eq!(self.plane.run(&frame, 1).expect("it runs").verdict, PASS);
        self.sequence = self.sequence.wrapping_add(text.len() as u32);
    }

    /// What an answer makes of keys that were all cached before it left.
    fn hear(&mut self, text: &str) -> String {
        cache(self.plane);
        let frame = self.frame(false).bytes(text.as_bytes());
        self.plane.leave(&frame).expect("it runs");
        self.answer = self.answer.wrapping_add(text.len() as u32);
        gone(self.plane)
    }

    fn reset(&mut self) -> String {
        cache(self.plane);
        let connection = self.frame(true);
        end(self.plane, &connection);
        gone(self.plane)
    }
}

#[test]
fn an_answer_forgets_what_it_answers_and_no_later_one_does() {
    let Some(mut plane) = data_plane(small()) else { return };
    for (port, said, answer) in [
        (1, "set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        (2, "add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        (3, "cas a 0 0 1 7\r\nx\r\n", "EXISTS\r\n"),
        (4, "append a 0 0 1\r\nx\r\n", "SERVER_ERROR out of memory storing object\r\n"),
        (5, "incr a 1\r\n", "18446744073709551615\r\n"),
        (6, "decr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        (7, "touch a 9\r\n", "TOUCHED\r\n"),
        (8, "delete a\r\n", "NOT_FOUND\r\n"),
        (9, "gat 9 a\r\n", "VALUE a 0 3\r\nold\r\nEND\r\n"),
        (10, "ms a 1\r\nx\r\n", "HD\r\n"),
        (11, "md a k\r\n", "NF ka\r\n"),
        (12, "ma a v\r\n", "VA 1\r\n5\r\n"),
        (13, "mg a v T9\r\n", "VA 3\r\nold\r\n"),
        (14, "mg a v N9\r\n", "EN\r\n"),
    ] {
        let mut one = Connection::open(&mut plane, port);
        one.say(said);
        assert_eq!(one.hear(answer), "a", "{said:?}");
        one.say("get b\r\n");
        assert_eq!(one.hear("END\r\n"), "", "{said:?}");
        one.say(&set("b"));
        assert_eq!(one.hear(STORED), "b", "{said:?}");
    }
}

#[test]
fn an_answer_is_waited_for_however_long_it_takes() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    // As if this had been at the machine's start.
    for flow in one.plane.flows.iter().filter(|flow| flow[5].load(Relaxed) != 0) {
        flow[5].store(1, Relaxed);
    }
    assert_eq!(one.hear(STORED), "a");
    assert_eq!(one.hear("END\r\n"), "abc", "an answer to nothing");
}

/// A key is asked for when its write's answer has left, not before.
#[test]
fn a_key_is_asked_for_once_its_write_is_answered() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    let from = |one: &Connection<'_>| one.plane.entries[0].ask_from_ns.load(Relaxed);
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    assert_eq!(from(&one), ANSWERED);
    while one.plane.report().is_some() {}
    assert_eq!(one.hear(STORED), "a");
    assert!(from(&one) < ANSWERED);
    assert_eq!(one.plane.report().map(|report| report.place), Some(0));
    one.say("set a 0 0 1 noreply\r\nx\r\n");
    assert!(from(&one) < ANSWERED, "no answer will come");
}

#[test]
fn answers_are_counted() {
    let Some(mut plane) = data_plane(small()) else { return };
    // Several on their way, answered one by one, together, and in pieces.
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    one.say(&[set("b"), "get x\r\n".into(), set("c")].concat());
    assert_eq!(one.hear("STO"), "abc");
    assert_eq!(one.hear("RED\r\n"), "abc");
    assert_eq!(one.hear("STORED\r\nVALUE x 0 19\r\nSTORED\r\n"), "bc");
    assert_eq!(one.hear("STORED\r\nEND\r\n\r\nEND"), "c", "that was a value");
    assert_eq!(one.hear("\r\nSTORED\r\n"), "c");
    one.say("get x\r\n");
    assert_eq!(one.hear("VALUE x 0 8\r\nST"), "");
    one.say(&set("a"));
    assert_eq!(one.hear("ORED\r\n\r\nEND\r\n"), "a");
    assert_eq!(one.hear(STORED), "a");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // Quiet ones wait for the next answer, whatever it answers.
    one.say("set a 0 0 1 noreply\r\nx\r\ndelete b noreply\r\n");
    one.say("get x\r\n");
    one.say(&set("c"));
    assert_eq!(one.hear("END\r\n"), "abc");
    assert_eq!(one.hear(STORED), "c");
    // Whether these are answered depends; the barrier is.
    one.say("ms a 1 q\r\nx\r\nmd b q\r\nmn\r\n");
    assert_eq!(one.hear("MN\r\n"), "ab");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // Of several on their way only the first is known.
    one.say("mn\r\nmn\r\n");
    assert_eq!(one.hear("MN\r\n"), "");
    one.say(&[set("a"), "mn\r\n".into()].concat());
    assert_eq!(one.hear("MN\r\n"), "a");
    assert_eq!(one.hear(STORED), "a");
    assert_eq!(one.hear("MN\r\n"), "");
}

#[test]
fn what_comes_again_is_not_counted_again() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut one = Connection::open(&mut plane, 1);
    let (sequence, answer) = (one.sequence, one.answer);
    one.say(&set("a"));
    one.sequence = sequence;
    one.say(&set("a"));
    assert_eq!(one.hear(STORED), "a");
    one.say(&set("b"));
    one.answer = answer;
    assert_eq!(one.hear(STORED), "b", "the first answer once more");
    assert_eq!(one.hear(STORED), "b");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
}

#[test]
fn what_is_not_known_forgets_everything() {
    let Some(mut plane) = data_plane(small()) else { return };
    // More than are kept.
    let mut one = Connection::open(&mut plane, 1);
    for _ in 0..10 {
        one.say(&[set("a"), set("b")].concat());
    }
    assert_eq!(one.hear(STORED), "abc");
    one.hear(&STORED.repeat(8));
    assert_eq!(one.hear(&STORED.repeat(10)), "ab", "those that are left are known");
    assert_eq!(one.hear(STORED), "b");
    // A key that is cut, one that is coded, all keys.
    for said in ["set a", "ms YQ== 1 b\r\nx\r\n", "flush_all\r\n"] {
        one.say(said);
        assert_eq!(one.hear("OK\r\n"), "abc", "{said:?}");
        one.say(" 0 0 1\r\nx\r\nget x\r\n");
        assert_eq!(one.hear("END\r\n"), "", "{said:?}");
    }
    // A segment that did not pass here.
    let mut one = Connection::open(&mut plane, 2);
    one.say("get x\r\n");
    one.sequence = one.sequence.wrapping_add(9);
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "abc");
    assert_eq!(one.hear("END\r\n"), "abc");
    // It begins anew.
    let mut one = Connection::open(&mut plane, 2);
    one.sequence = 1_000_000;
    let mut syn = one.frame(true).bytes(b"");
    syn[FLAGS] = SYN;
    one.plane.run(&syn, 1).expect("it runs");
    one.sequence += 1;
    one.say(&set("a"));
    // The same once more changes nothing.
    one.plane.run(&syn, 1).expect("it runs");
    assert_eq!(one.hear(STORED), "a");
    one.say(&set("b"));
    assert_eq!(one.reset(), "b", "it ends, and whatever was said is done");
    assert_eq!(one.hear("END\r\n"), "");
    assert_eq!(one.hear(STORED), "abc", "nothing is known of it any more");
}

#[test]
fn datagrams_are_answered_by_number() {
    let Some(mut plane) = data_plane(small()) else { return };
    let there = Frame::udp(at("10.0.0.1:1"), at(SERVER));
    let back = Frame { source: there.destination, destination: there.source, ..there.clone() };
    for (number, key) in KEYS.iter().enumerate() {
        let datagram = Datagram::whole(number as u16, set(key).as_bytes()).bytes();
        plane.run(&there.bytes(&datagram), 1).expect("it runs");
    }
    let mut hear = |number: u16, text: &str| {
        cache(&mut plane);
        let answer = Datagram::whole(number, text.as_bytes()).bytes();
        plane.leave(&back.bytes(&answer)).expect("it runs");
        gone(&mut plane)
    };
    assert_eq!(hear(1, STORED), "b");
    assert_eq!(hear(0, STORED), "a");
    assert_eq!(hear(9, "VALUE x 0 1\r\nx\r\nEND\r\n"), "");
    assert_eq!(hear(2, STORED), "c");
    assert_eq!(hear(3, STORED), "abc", "of a write that was not seen");
}
