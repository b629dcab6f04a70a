//! A packet has the same result whatever an earlier packet left in the program's memory, and
//! whatever padding follows it in the frame.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::sync::atomic::Ordering::Relaxed;

use rustix::thread::{CpuSet, sched_setaffinity};
use support::written::{SERVER, cache_text, named};
use support::{at, data_plane, end, small, to_server, value};
use switch::{
    frame::{Frame, Transport},
    install::{Key, Room},
    layout::Protocol,
    plane::{DataPlane, PASS},
};
use wire::{
    memcache::{frame::Frame as Datagram, item::Item},
    netcache::{Flags, Message, Op},
};

const KEYS: [&str; 3] = ["a", "bb", "k2345678"];

/// Each processor has its own memory of earlier packets.
fn stay_on_the_first_processor() {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first).expect("there is a first processor");
}

fn udp(port: u16) -> Frame {
    Frame::udp(format!("10.0.0.1:{port}").parse().expect("an address"), at(SERVER))
}

fn cache_all(plane: &mut DataPlane) {
    for (number, key) in (0..).zip(KEYS) {
        let text = Item { flags: 0, lives_s: None, value: "v".into() }.get_text(key.as_bytes());
        let named = named(plane, SERVER, key, false);
        cache_text(plane, number, &named, &text);
    }
}

/// Runs a frame after `before`; returns the verdict, the frame, and the dropped keys.
fn outcome(plane: &mut DataPlane, before: &[u8], frame: &[u8]) -> (u32, Vec<u8>, Vec<u64>) {
    let earlier = Frame { transport: Transport::Tcp, ..udp(40_999) };
    plane.run(&earlier.bytes(before), 1).expect("it runs");
    cache_all(plane);
    let epoch = plane.shared().epoch.load(Relaxed);
    let outcome = plane.run(frame, 1).expect("it runs");
    let mut changed: Vec<u64> = (0..KEYS.len() as u32)
        .map(|number| plane.version(number).expect("an entry").0 - 100)
        .collect();
    changed.push(plane.shared().epoch.load(Relaxed) - epoch);
    (outcome.verdict, outcome.frame, changed)
}

const SAID: [&str; 22] = [
    "get a\r\n",
    "get k2345678\r\n",
    "get a bb k2345678\r\n",
    "gets a\r\n",
    "gat 10 a bb\r\n",
    "gats 10 a bb\r\n",
    "mg a v\r\n",
    "mg a t T30\r\n",
    "mg YQ== b v\r\n",
    "ms a 1\r\nx\r\n",
    "md a q\r\n",
    "ma a b\r\n",
    "set a 0 0 1\r\nx\r\n",
    "add a 0 0 1\r\nx\r\n",
    "cas a 0 0 1 7\r\nx\r\n",
    "incr a 1\r\n",
    "touch a 0\r\n",
    "append a 0 0 1\r\nx\r\n",
    "delete    a\r\n",
    "replace a 0 0 1\r\nx\r\nset bb 0 0 1\r\n",
    "prepend a 0 0 1\r\nx\r\n",
    "flush_all\r\n",
];

#[test]
fn what_an_earlier_packet_left_changes_nothing() {
    stay_on_the_first_processor();
    let Some(mut plane) = data_plane(small()) else { return };
    let fills = [" ", "\n", "\r\n", "b", " b", "a ", " a\r\n", "et a\r\n", "0", "\x01\0\0\0"];
    let fills: Vec<Vec<u8>> =
        fills.iter().map(|fill| format!("x{}", fill.repeat(1400 / fill.len())).into()).collect();
    let mut port = 41_000;
    for said in SAID {
        for bytes in 1..=said.len() {
            port = if port == 60_000 { 41_000 } else { port + 1 };
            let cut = &said.as_bytes()[..bytes];
            let connection = Frame { transport: Transport::Tcp, ..udp(port) };
            let tcp = connection.bytes(cut);
            let udp = udp(port).bytes(&Datagram::whole(1, cut).bytes());
            for frame in [tcp, udp] {
                let expected = outcome(&mut plane, b"x", &frame);
                for fill in &fills {
                    end(&mut plane, &connection);
                    let got = outcome(&mut plane, fill, &frame);
                    assert!(
                        got == expected,
                        "{:?} after {:?}: {:?} became {:?}",
                        cut.escape_ascii().to_string(),
                        fill[..8].escape_ascii().to_string(),
                        (expected.0, &expected.2),
                        (got.0, &got.2)
                    );
                }
            }
        }
    }
}

#[test]
fn padding_changes_nothing() {
    stay_on_the_first_processor();
    let Some(mut plane) = data_plane(small()) else { return };
    for said in SAID {
        for bytes in 1..=said.len() {
            let (cut, rest) = said.as_bytes().split_at(bytes);
            let frame = udp(42_000).bytes(&Datagram::whole(1, cut).bytes());
            let (verdict, reply, changed) = outcome(&mut plane, b"x", &frame);
            let padded = [&frame[..], rest, b" a\r\n\0\0\0\0"].concat();
            let got = outcome(&mut plane, b"x", &padded);
            assert_eq!((got.0, &got.2), (verdict, &changed), "{:?}", cut.escape_ascii());
            if verdict == PASS {
                assert!(got.1 == padded, "{:?}: not byte for byte", cut.escape_ascii());
            } else {
                assert!(got.1 == reply, "{:?}: another reply", cut.escape_ascii());
            }
        }
    }
}

#[test]
fn a_long_key_that_goes_on_in_the_padding_is_none() {
    let Some(mut plane) = data_plane(small()) else { return };
    let long = b"a key that is longer than sixteen bytes";
    let stored = [&[long.len() as u8][..], long, b"value"].concat();
    let key = Key {
        name: support::name(1),
        bytes: long.to_vec(),
        server: at(support::SERVER),
        protocol: Protocol::NetCache,
        lease: 0,
    };
    plane.leases[0].store(u64::MAX, Relaxed);
    assert!(plane.admit(1, &key, Room { place: 1, bitmap: 0 }, 100));
    assert!(plane.fill(1, 100, &value(&stored)));
    let asked = [&[long.len() as u8][..], long].concat();
    for bytes in 0..=asked.len() {
        let (cut, rest) = asked.split_at(bytes);
        let get = Message {
            flags: Flags::LONG_KEY,
            value: cut,
            ..Message::new(Op::Get, 7, support::name(1))
        };
        let frame = [&to_server().bytes(&get.bytes())[..], rest].concat();
        let outcome = plane.run(&frame, 1).expect("it runs");
        assert_eq!(outcome.verdict == PASS, bytes < asked.len(), "{bytes} bytes of the key");
    }
}

#[test]
fn binary_writes_in_datagrams_forget_everything() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut binary = vec![0x80, 1, 0, 1, 8];
    binary.resize(34, 0);
    let frame = udp(43_000).bytes(&Datagram::whole(1, &binary).bytes());
    assert_eq!(outcome(&mut plane, b"x", &frame).2[KEYS.len()], 1, "the epoch");
}
