//! The data plane forgets the keys that a connection to memcached writes when the reply to the
//! write leaves, after whatever time, and not on later replies.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use support::written::{KEYS, SERVER, STORED, cache, gone, set};
use support::{FLAGS, RST, SYN, at, data_plane, end, small};
use switch::{
    asking::Asking,
    frame::{Frame, Transport},
    layout::UNSEEN_MAX,
    plane::{DataPlane, PASS},
};

struct Connection<'a> {
    plane: &'a mut DataPlane,
    client: String,
    sequence: u32,
    answer: u32,
}

impl<'a> Connection<'a> {
    /// A connection whose SYN was not seen.
    fn join(plane: &'a mut DataPlane, port: u16) -> Self {
        // The sequence numbers wrap around.
        Self { plane, client: format!("10.0.0.1:{port}"), sequence: u32::MAX - 40, answer: 7 }
    }

    fn open(plane: &'a mut DataPlane, port: u16) -> Self {
        let mut opened = Self::join(plane, port);
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

    /// Returns the keys that are not served, all cached before, after a reply has left.
    fn hear(&mut self, text: &str) -> String {
        cache(self.plane);
        let frame = self.frame(false).bytes(text.as_bytes());
        self.plane.leave(&frame).expect("it runs");
        self.answer = self.answer.wrapping_add(text.len() as u32);
        gone(self.plane)
    }

    /// The server closes the connection.
    fn end(&mut self) -> String {
        cache(self.plane);
        let connection = self.frame(true);
        end(self.plane, &connection);
        gone(self.plane)
    }

    /// The client resets the connection.
    fn reset(&mut self) -> String {
        cache(self.plane);
        let mut rst = self.frame(true).bytes(b"");
        rst[FLAGS] = RST;
        assert_eq!(self.plane.run(&rst, 1).expect("it runs").verdict, PASS);
        gone(self.plane)
    }

    /// As if the connection had been idle for this time.
    fn pause(&mut self, time: Duration) {
        for flow in self.plane.flows.iter().filter(|flow| flow[AT_NS].load(Relaxed) != 0) {
            flow[AT_NS].fetch_sub(time.as_nanos() as u64, Relaxed);
        }
    }
}

/// Word of `struct flow` that holds the time of the last packet.
const AT_NS: usize = 5;
/// Word of `struct flow` that holds the ports of the connection.
const PORTS: usize = 4;
const MINUTE: Duration = Duration::from_secs(61);

/// As if the program had been attached for a long time.
fn watch(plane: &DataPlane) {
    plane.shared().watched_ns.store(1, Relaxed);
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
    one.pause(MINUTE);
    assert_eq!(one.hear(STORED), "a");
    assert_eq!(one.hear("END\r\n"), "abc", "a reply without a request");
    // Another request before the reply.
    one.say(&set("b"));
    one.pause(MINUTE);
    one.say("get x\r\n");
    assert_eq!(one.hear(STORED), "b");
    assert_eq!(one.hear("END\r\n"), "");
    // The same after a gap in the sequence numbers.
    one.sequence = one.sequence.wrapping_add(9);
    one.say(&set("c"));
    one.pause(MINUTE);
    one.say("get x\r\n");
    assert_eq!(one.hear(STORED), "abc");
}

/// A connection that was open before the program was attached may have sent requests that are not
/// answered yet.
#[test]
fn what_was_asked_before_the_program_came_is_waited_for() {
    let Some(mut plane) = data_plane(small()) else { return };
    // The maximum number of such requests.
    let mut one = Connection::join(&mut plane, 1);
    one.say(&set("b"));
    (0..UNSEEN_MAX).for_each(|answer| assert_eq!(one.hear(STORED), "abc", "{answer}"));
    assert_eq!(one.hear(STORED), "b");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // No such requests.
    let mut one = Connection::join(&mut plane, 2);
    one.say(&set("b"));
    assert_eq!(one.hear(STORED), "abc");
    for _ in 1..UNSEEN_MAX {
        one.say("get x\r\n");
        assert_eq!(one.hear("END\r\n"), "abc");
    }
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "b");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // The connection waits for what was seen, and afterwards for nothing.
    one.say(&[set("b"), set("c")].concat());
    one.pause(Duration::from_secs(2));
    assert_eq!(one.hear(STORED), "bc");
    one.say("get x\r\n");
    assert_eq!(one.hear(STORED), "bc");
    assert_eq!(one.hear("END\r\n"), "bc");
    one.pause(Duration::from_secs(2));
    one.say(&set("a"));
    assert_eq!(one.hear(STORED), "a");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // Once the program has been attached for long, a connection is known from its first packet.
    watch(&plane);
    let mut one = Connection::join(&mut plane, 3);
    one.say(&set("a"));
    assert_eq!(one.hear(STORED), "a");
}

#[test]
fn a_write_whose_place_was_taken_still_waits() {
    let Some(mut plane) = data_plane(small()) else { return };
    watch(&plane);
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    one.pause(MINUTE);
    // As if another connection had taken the entry, and this one got it back.
    for flow in one.plane.flows.iter().filter(|flow| flow[AT_NS].load(Relaxed) != 0) {
        flow[PORTS].fetch_xor(1, Relaxed);
    }
    one.say("get x\r\n");
    assert_eq!(one.hear(STORED), "abc");
}

/// A write on a reset connection is not acknowledged, and no reply shows when it was applied.
#[test]
fn what_a_reset_connection_wrote_is_not_asked_for_again() {
    let Some(mut plane) = data_plane(small()) else { return };
    let leaves = |plane: &DataPlane| -> String {
        let leaves = |place: &usize| plane.entries[*place].leaves.load(Relaxed) != 0;
        (0..KEYS.len()).filter(leaves).map(|place| KEYS[place]).collect()
    };
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    one.say("set b 0 0 1 noreply\r\nx\r\n");
    one.sequence = one.sequence.wrapping_add(1);
    assert_eq!(one.reset(), "ab", "the server may apply it or not");
    assert_eq!(leaves(one.plane), "ab");
    one.sequence = one.sequence.wrapping_sub(1);
    assert_eq!(one.reset(), "ab");
    assert_eq!(one.reset(), "", "the connection is closed");
    // A reply on another connection changes nothing.
    let mut one = Connection::open(&mut plane, 2);
    one.say(&set("a"));
    assert_eq!(one.reset(), "a");
    let mut other = Connection::open(&mut plane, 3);
    other.say(&set("a"));
    let frame = other.frame(false).bytes(STORED.as_bytes());
    other.plane.leave(&frame).expect("it runs");
    assert_eq!(leaves(&plane), "a");
    // The key is unknown.
    let mut one = Connection::open(&mut plane, 4);
    one.say("set a");
    assert_eq!(one.reset(), "abc");
    // Everything is answered.
    let mut one = Connection::open(&mut plane, 5);
    one.say(&set("a"));
    one.hear(STORED);
    assert_eq!(one.reset(), "");
}

/// A key is requested only after the reply to its write has left.
#[test]
fn a_key_is_asked_for_once_its_write_is_answered() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane);
    // After every delay before a key may be requested.
    let later = Duration::from_secs(1 << 32);
    let may_ask = |one: &Connection<'_>| matches!(one.plane.asking(0, later), Asking::Now { .. });
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    assert!(!may_ask(&one));
    while one.plane.report().is_some() {}
    assert_eq!(one.hear(STORED), "a");
    assert!(may_ask(&one));
    assert_eq!(one.plane.report().map(|report| report.place), Some(0));
    one.say("set a 0 0 1 noreply\r\nx\r\n");
    assert!(may_ask(&one), "no answer will come");
}

#[test]
fn answers_are_counted() {
    let Some(mut plane) = data_plane(small()) else { return };
    // Several requests in flight, answered one by one, together, and in pieces.
    let mut one = Connection::open(&mut plane, 1);
    one.say(&set("a"));
    one.say(&[set("b"), "get x\r\n".into(), set("c")].concat());
    assert_eq!(one.hear("STO"), "abc");
    assert_eq!(one.hear("RED\r\n"), "abc");
    assert_eq!(one.hear("STORED\r\nVALUE x 0 19\r\nSTORED\r\n"), "bc");
    assert_eq!(one.hear("STORED\r\nEND\r\n\r\nEND"), "c", "END was part of a value");
    assert_eq!(one.hear("\r\nSTORED\r\n"), "c");
    one.say("get x\r\n");
    assert_eq!(one.hear("VALUE x 0 8\r\nST"), "");
    one.say(&set("a"));
    assert_eq!(one.hear("ORED\r\n\r\nEND\r\n"), "a");
    assert_eq!(one.hear(STORED), "a");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // Quiet requests are complete with the next reply, whatever request it answers.
    one.say("set a 0 0 1 noreply\r\nx\r\ndelete b noreply\r\n");
    one.say("get x\r\n");
    one.say(&set("c"));
    assert_eq!(one.hear("END\r\n"), "abc");
    assert_eq!(one.hear(STORED), "c");
    // Whether the quiet requests are answered is unknown; the barrier is answered.
    one.say("ms a 1 q\r\nx\r\nmd b q\r\nmn\r\n");
    assert_eq!(one.hear("MN\r\n"), "ab");
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "");
    // Of several requests in flight only the first is known.
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
    // More requests than are remembered.
    let mut one = Connection::open(&mut plane, 1);
    for _ in 0..10 {
        one.say(&[set("a"), set("b")].concat());
    }
    assert_eq!(one.hear(STORED), "abc");
    one.hear(&STORED.repeat(8));
    assert_eq!(one.hear(&STORED.repeat(10)), "ab", "the remaining ones are known");
    assert_eq!(one.hear(STORED), "b");
    // A truncated key, a base64 key, all keys.
    for said in ["set a", "ms YQ== 1 b\r\nx\r\n", "flush_all\r\n"] {
        one.say(said);
        assert_eq!(one.hear("OK\r\n"), "abc", "{said:?}");
        one.say(" 0 0 1\r\nx\r\nget x\r\n");
        assert_eq!(one.hear("END\r\n"), "", "{said:?}");
    }
    // A segment that did not pass the program.
    let mut one = Connection::open(&mut plane, 2);
    one.say("get x\r\n");
    one.sequence = one.sequence.wrapping_add(9);
    one.say("get x\r\n");
    assert_eq!(one.hear("END\r\n"), "abc");
    assert_eq!(one.hear("END\r\n"), "abc");
    // The connection is opened again.
    let mut one = Connection::open(&mut plane, 2);
    one.sequence = 1_000_000;
    let mut syn = one.frame(true).bytes(b"");
    syn[FLAGS] = SYN;
    one.plane.run(&syn, 1).expect("it runs");
    one.sequence += 1;
    one.say(&set("a"));
    // A retransmitted SYN changes nothing.
    one.plane.run(&syn, 1).expect("it runs");
    assert_eq!(one.hear(STORED), "a");
    one.say(&set("b"));
    assert_eq!(one.end(), "b", "the connection is closed, so all its writes are done");
    assert_eq!(one.hear("END\r\n"), "abc", "the connection is forgotten");
    assert_eq!(one.hear(STORED), "abc");
}
