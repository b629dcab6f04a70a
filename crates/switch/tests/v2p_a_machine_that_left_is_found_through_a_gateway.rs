//! The programs of a gateway and of a server that machines leave.

#[path = "support/v2p.rs"]
mod v2p;

use switch::v2p::{
    bits::COUNTS,
    end::{End, Kind},
    packet::{Packet, Tags, Tunnelled},
};
use v2p::{VXLAN, gateway, machine, packet, server};

const DROP: u32 = 1;
const PASS: u32 = 2;
const TRANSMIT: u32 = 3;

#[allow(clippy::print_stdout, reason = "a test says what it skips")]
fn end(kind: Kind, at: std::net::Ipv4Addr) -> Option<End> {
    match End::load(kind, at, VXLAN, &[gateway(0), gateway(1)]) {
        Ok(end) => Some(end),
        Err(error) => {
            println!("SKIPPED: {error}");
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{error}");
            None
        }
    }
}

fn counted(end: &End, name: &str) -> u64 {
    let at = COUNTS.iter().position(|(known, _)| *known == name).expect("a counter");
    end.counts().expect("counters")[at]
}

fn read(frame: &[u8]) -> Tunnelled {
    match Packet::read(frame) {
        Ok(Packet::Tunnelled(packet)) => packet,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gateway_sends_a_packet_to_the_server_that_has_the_machine() {
    let Some(mut end) = end(Kind::Gateway, gateway(1)) else { return };
    end.add(machine(2), server(3, 0)).expect("room");
    let mut sent = packet((server(0, 0), gateway(1)), (machine(1), machine(2)));
    sent.tags = Some(Tags {
        hit: 4,
        entry: Some((machine(5), server(2, 2))),
        misdelivered_from: Some(server(1, 1)),
        ..Tags::default()
    });
    let outcome = end.run(&sent.frame(VXLAN)).expect("it runs");
    assert_eq!(outcome.verdict, TRANSMIT);
    let tags = Some(Tags { hit: 4, ..Tags::default() });
    let outer = (server(0, 0), server(3, 0));
    assert_eq!(read(&outcome.frame), Tunnelled { outer, hops: 59, tags, ..sent.clone() });

    end.add(machine(2), server(2, 0)).expect("it moves");
    let outcome = end.run(&sent.frame(VXLAN)).expect("it runs");
    assert_eq!(read(&outcome.frame).outer.1, server(2, 0));
    assert_eq!(counted(&end, "PACKETS"), 2);
}

#[test]
fn a_gateway_drops_what_is_for_no_machine() {
    let Some(mut end) = end(Kind::Gateway, gateway(1)) else { return };
    let sent = packet((server(0, 0), gateway(1)), (machine(1), machine(2)));
    assert_eq!(end.run(&sent.frame(VXLAN)).expect("it runs").verdict, DROP);
    assert_eq!(counted(&end, "UNKNOWN"), 1);
}

#[test]
fn a_server_takes_what_is_for_its_machines_and_returns_the_rest() {
    let Some(mut end) = end(Kind::Server, server(3, 0)) else { return };
    end.add(machine(2), server(3, 0)).expect("room");
    let mut sent = packet((server(0, 0), server(3, 0)), (machine(1), machine(2)));
    for tags in [None, Some(Tags { hit: 9, ..Tags::default() })] {
        sent.tags = tags;
        let frame = sent.frame(VXLAN);
        let outcome = end.run(&frame).expect("it runs");
        assert_eq!(outcome.verdict, PASS);
        assert_eq!(outcome.frame[..14], frame[..14]);
        assert_eq!(outcome.frame[14..], frame[frame.len() - 50..], "the inner packet alone");
    }

    end.remove(machine(2)).expect("it was there");
    for hit in [None, Some(9)] {
        sent.tags = hit.map(|hit| Tags { hit, ..Tags::default() });
        let outcome = end.run(&sent.frame(VXLAN)).expect("it runs");
        assert_eq!(outcome.verdict, TRANSMIT);
        let returned = read(&outcome.frame);
        assert!([gateway(0), gateway(1)].contains(&returned.outer.1));
        assert_eq!(returned.outer.0, server(0, 0), "by which the ToR sees it");
        let tags = hit.map(|hit| Tags { hit, returned: true, ..Tags::default() });
        assert_eq!(returned.tags, tags);
    }
    assert_eq!(counted(&end, "MISDELIVERED"), 2);
    assert!(end.remove(machine(2)).is_err());
}

#[test]
fn an_end_drops_what_only_switches_read_and_leaves_the_rest_alone() {
    let Some(mut end) = end(Kind::Server, server(3, 0)) else { return };
    let elsewhere = packet((server(0, 0), server(3, 1)), (machine(1), machine(2))).frame(VXLAN);
    let mut other = elsewhere.clone();
    other[12..14].copy_from_slice(&[8, 6]);
    for frame in [elsewhere, other] {
        let outcome = end.run(&frame).expect("it runs");
        assert_eq!((outcome.verdict, outcome.frame == frame), (PASS, true));
    }
    let control = switch::v2p::packet::Control {
        outer: (server(0, 0), server(3, 0)),
        invalidation: false,
        mapping: (machine(1), server(0, 0)),
    };
    assert_eq!(end.run(&control.frame()).expect("it runs").verdict, DROP);
}
