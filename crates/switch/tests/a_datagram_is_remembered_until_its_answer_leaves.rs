//! The data plane forgets the keys that a datagram to memcached writes when the reply with the same
//! request ID leaves.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use support::written::{KEYS, SERVER, STORED, cache, gone, set};
use support::{at, data_plane, small};
use switch::{
    frame::Frame,
    plane::{DataPlane, PASS},
};
use wire::memcache::frame::Frame as Datagram;

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

/// A datagram may be fragmented, or too long to parse: any reply may then be that to a write.
#[test]
fn datagrams_that_cannot_be_read_are_waited_for() {
    let Some(mut plane) = data_plane(small()) else { return };
    let gat = |number: u16| Datagram::whole(number, b"gat 9 a\r\n").bytes();
    let there = Frame::udp(at("10.0.0.1:1"), at(SERVER));
    let mut first = there.bytes(&gat(1));
    first[14 + 6] |= 0x20;
    // The UDP length is that of the whole datagram.
    let mut short = there.bytes(&[gat(2), vec![b' '; 16]].concat());
    short[14 + 6] |= 0x20;
    short[14 + 3] -= 16;
    short.truncate(short.len() - 16);
    let long = there.bytes(&[gat(3), vec![b' '; 2048]].concat());
    for (number, frame) in (1..).zip([first, short, long]) {
        cache(&mut plane);
        assert_eq!(plane.run(&frame, 1).expect("it runs").verdict, PASS);
        assert_eq!(gone(&mut plane), "abc", "{number}");
        assert_eq!(hear(&mut plane, &there, number), "abc", "{number}");
        assert_eq!(hear(&mut plane, &there, number + 10), "", "{number}");
    }
}

#[test]
fn fragments_of_ipv6_are_waited_for() {
    let Some(mut plane) = data_plane(small()) else { return };
    let there = Frame::udp(at("[fd00::1]:1"), at("[fd00::2]:11211"));
    let mut frame = there.bytes(&Datagram::whole(1, b"gat 9 a\r\n").bytes());
    let (length, next, behind) = (14 + 5, 14 + 6, 14 + 40);
    frame[length] += 8;
    frame[next] = 44;
    frame.splice(behind..behind, [17, 0, 0, 1, 0, 0, 0, 7]);
    cache(&mut plane);
    assert_eq!(plane.run(&frame, 1).expect("it runs").verdict, PASS);
    assert_eq!(gone(&mut plane), "abc");
    assert_eq!(hear(&mut plane, &there, 1), "abc");
    assert_eq!(hear(&mut plane, &there, 2), "");
    // Only the first fragment has the port.
    cache(&mut plane);
    frame[behind + 2..behind + 4].copy_from_slice(&[0, 9]);
    assert_eq!(plane.run(&frame, 1).expect("it runs").verdict, PASS);
    assert_eq!(gone(&mut plane), "");
}

/// Returns the keys that are not served, all cached before, after a reply with this request ID that
/// is not the reply to a write.
fn hear(plane: &mut DataPlane, there: &Frame, number: u16) -> String {
    cache(plane);
    let back = Frame { source: there.destination, destination: there.source, ..there.clone() };
    let answer = Datagram::whole(number, b"VALUE a 0 3\r\nold\r\nEND\r\n").bytes();
    plane.leave(&back.bytes(&answer)).expect("it runs");
    gone(plane)
}
