//! Every operation through the real program, from both sides: the program drops messages that a
//! client may not send.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::sync::atomic::Ordering::Relaxed;

use support::{CLIENT, SERVER, at, cache, come_from, data_plane, get, name, small};
use switch::{
    attach::Side,
    frame::Frame,
    layout::COUNTERS,
    plane::{DROP, DataPlane, PASS, TRANSMIT},
};
use wire::netcache::{Flags, Message, Op, Party};

const SWITCH: &str = "10.0.0.254:50000";
/// The version under which `cache` admits keys.
const ADMITTED: u64 = 100;

fn run(plane: &mut DataPlane, frame: &Frame, op: Op, version: u64) -> u32 {
    let message =
        Message { version, flags: Flags::FOUND, value: b"forged", ..Message::new(op, 7, name(1)) };
    plane.run(&frame.bytes(&message.bytes()), 1).expect("it runs").verdict
}

fn forged(plane: &DataPlane) -> u64 {
    let at = COUNTERS.iter().position(|(name, _)| *name == "forged").expect("a counter");
    plane.counts().expect("counters")[at]
}

#[test]
fn nothing_but_reads_and_writes_comes_in_where_clients_are() {
    let Some(mut plane) = data_plane(small()) else { return };
    come_from(&plane, Side::Clients);
    // From its own address, and from a server's.
    for source in [CLIENT, SERVER] {
        for to in [SERVER, SWITCH] {
            for op in Op::ALL.iter().filter(|op| op.sender() != Party::Client) {
                for version in [0, ADMITTED, ADMITTED + 1, 1 << 62] {
                    cache(&mut plane, 1, b"value");
                    let before = forged(&plane);
                    let frame = Frame::udp(at(source), at(to));
                    assert_eq!(run(&mut plane, &frame, *op, version), DROP, "{op:?} {version}");
                    assert_eq!(forged(&plane), before + 1);
                    assert_eq!(plane.version(1), Some((ADMITTED, true)), "{op:?} {version}");
                }
            }
        }
    }
    assert_eq!(plane.run(&get(1), 1).expect("it runs").verdict, TRANSMIT);
    let to_server = Frame::udp(at(CLIENT), at(SERVER));
    assert_eq!(run(&mut plane, &to_server, Op::Put, 1 << 62), PASS);
    assert_eq!(plane.version(1), Some((ADMITTED + 1, false)));
}

#[test]
fn agents_are_heard_from_the_side_of_servers_and_the_switch_is_not() {
    let Some(mut plane) = data_plane(small()) else { return };
    let agent = Frame::udp(at(SERVER), at(SWITCH));
    for op in Op::ALL {
        cache(&mut plane, 1, b"value");
        let verdict = run(&mut plane, &agent, *op, ADMITTED);
        let expected = match (op, op.sender()) {
            (Op::Update | Op::Invalidate, _) => TRANSMIT,
            (_, Party::Client | Party::Agent) => PASS,
            (_, Party::DataPlane | Party::Controller) => DROP,
        };
        assert_eq!(verdict, expected, "{op:?}");
    }
    // A sender that does not know the entry's version cannot invalidate it either.
    for version in [0, 1, ADMITTED + 1, 1 << 62, u64::MAX] {
        cache(&mut plane, 1, b"value");
        plane.entries[1].version.store(1 << 50, Relaxed);
        plane.entries[1].valid_version.store(1 << 50, Relaxed);
        assert_eq!(run(&mut plane, &agent, Op::Invalidate, version), DROP, "{version}");
        assert_eq!(plane.version(1), Some((1 << 50, true)), "{version}");
    }
}

#[test]
fn what_is_no_operation_passes() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"value");
    for side in [Side::Clients, Side::Servers] {
        come_from(&plane, side);
        for number in (0..=u8::MAX).filter(|number| Op::of(*number).is_none()) {
            let mut message = Message::new(Op::Get, 7, name(1)).bytes();
            message[0] = number;
            let frame = Frame::udp(at(CLIENT), at(SERVER)).bytes(&message);
            let outcome = plane.run(&frame, 1).expect("it runs");
            assert!(outcome.verdict == PASS && outcome.frame == frame, "{number}");
        }
    }
}
