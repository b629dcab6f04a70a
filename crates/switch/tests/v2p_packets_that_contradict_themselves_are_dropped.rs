//! A table of packets that a SwitchV2P switch passes unchanged, and of those that it drops and
//! counts.

#[path = "support/v2p.rs"]
mod v2p;

use std::net::Ipv4Addr;

use policy::v2p::Role;
use switch::v2p::{
    bits::COUNTS,
    packet::{Control, Tags},
    plane::Plane,
};
use v2p::{INTERFACE, PAPER, VXLAN, attach, config, gateway, machine, packet, plane, server};

const DROP: u32 = 1;
const PASS: u32 = 2;

/// Offsets in a frame without the option.
const IP: usize = 14;
const OPTION: usize = 34;
const UDP: usize = 34;
const NETWORK: usize = UDP + 8;
const INNER_TYPE: usize = NETWORK + 8 + 12;
const INNER: usize = INNER_TYPE + 2;

fn valid(tags: Option<Tags>) -> Vec<u8> {
    let mut packet = packet((server(0, 0), gateway(1)), (machine(1), machine(2)));
    packet.tags = tags;
    packet.frame(VXLAN)
}

/// The valid frame, overwritten with `bytes` at this offset.
fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = valid(None);
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn with_option(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = valid(Some(Tags::default()));
    frame[OPTION + at..OPTION + at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn control() -> Control {
    Control {
        outer: (Ipv4Addr::new(10, 255, 0, 2), server(0, 1)),
        invalidation: false,
        mapping: (machine(3), server(2, 2)),
    }
}

fn control_with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = control().frame();
    frame[UDP + at..UDP + at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn tor() -> Option<Plane> {
    plane(config(Role::Tor, 16, PAPER))
}

/// The verdict, whether the frame is unchanged, and the counters that increased.
fn run(plane: &mut Plane, frame: &[u8]) -> (u32, bool, Vec<&'static str>) {
    let before = plane.counts().expect("counters");
    let passed = plane.run(frame, 1).expect("it runs");
    let after = plane.counts().expect("counters");
    let raised = COUNTS.iter().zip(before.iter().zip(after));
    let raised = raised.filter(|(_, (before, after))| after > before).map(|((name, _), _)| *name);
    (passed.verdict, passed.frame == frame, raised.collect())
}

#[test]
fn what_is_not_the_overlays_passes_unchanged() {
    let Some(mut plane) = tor() else { return };
    let mut cut = valid(None);
    cut.truncate(cut.len() - 1);
    let mut short = valid(None);
    short.truncate(33);
    for (what, frame) in [
        ("ARP", with(12, &[8, 6])),
        ("IPv6", with(12, &[0x86, 0xdd])),
        ("a header that is cut", short),
        ("a packet that is cut", cut),
        ("version 5", with(IP, &[0x55])),
        ("a header of 4 words", with(IP, &[0x44])),
        ("a header longer than the packet", with(IP, &[0x46, 0, 0, 20])),
        ("a first fragment", with(IP + 6, &[0x20, 0])),
        ("a later fragment", with(IP + 6, &[0, 1])),
        ("another protocol", with(IP + 9, &[6])),
        ("another port", with(UDP + 2, &[0x12, 0xb6])),
        ("VXLAN without a network", with(NETWORK, &[0])),
        ("another network", with(NETWORK + 4, &[0, 0, 41])),
        ("inner ARP", with(INNER_TYPE, &[8, 6])),
        ("no inner source", with(INNER + 12, &[0; 4])),
        ("no inner destination", with(INNER + 16, &[0; 4])),
        ("a source outside the underlay", with(IP + 12, &[192])),
        ("a destination outside the underlay", with(IP + 16, &[224])),
        ("another option", with_option(0, &[7])),
    ] {
        assert_eq!(run(&mut plane, &frame), (PASS, true, vec![]), "{what}");
    }
}

#[test]
fn what_contradicts_itself_is_dropped() {
    let Some(mut plane) = tor() else { return };
    for (what, frame) in [
        ("an option of another length", with_option(1, &[16])),
        ("a promotion of nothing", with_option(4, &[1])),
        ("an entry outside the underlay", with_option(8, &[172, 16, 0, 1, 200, 0, 0, 1])),
        ("misdelivered from outside the underlay", with_option(16, &[200, 0, 0, 1])),
        ("the length of UDP", with(UDP + 4, &[0, 70])),
        ("inner version 6", with(INNER, &[0x65])),
        ("an inner header of 4 words", with(INNER, &[0x44])),
        ("an inner packet longer than the outer", with(INNER + 2, &[1, 0])),
        ("an inner packet shorter than its header", with(INNER + 2, &[0, 19])),
        ("a control packet of another length", control_with(4, &[0, 71])),
        ("a control packet of something else", control_with(8, b"v2p2")),
        ("a mapping of no machine", control_with(16, &[0; 4])),
        ("a mapping to outside the underlay", control_with(20, &[200])),
    ] {
        assert_eq!(run(&mut plane, &frame), (DROP, true, vec!["MALFORMED"]), "{what}");
    }
    assert!(plane.lines.iter().all(|line| line.load(std::sync::atomic::Ordering::Relaxed) == 0));
}

#[test]
fn what_only_switches_say_is_dropped_if_a_host_says_it() {
    let Some(mut plane) = tor() else { return };
    attach(&mut plane, server(0, 0), false);
    let entry = Some((machine(3), server(2, 2)));
    let from = Some(server(2, 2));
    let invalidation = Control { invalidation: true, ..control() };
    for (what, frame) in [
        ("a learning packet", control().frame()),
        ("an invalidation packet", invalidation.frame()),
        ("a hit tag on a packet of its own", valid(Some(Tags { hit: 3, ..Tags::default() }))),
        ("a spilled entry", valid(Some(Tags { entry, ..Tags::default() }))),
        ("a promotion", valid(Some(Tags { entry, promotion: true, ..Tags::default() }))),
        ("a misdelivery tag", valid(Some(Tags { misdelivered_from: from, ..Tags::default() }))),
        (
            "a spilled entry on a packet sent back",
            valid(Some(Tags { entry, returned: true, ..Tags::default() })),
        ),
    ] {
        assert_eq!(run(&mut plane, &frame), (DROP, true, vec!["FORGED"]), "{what}");
    }
    assert!(plane.lines.iter().all(|line| line.load(std::sync::atomic::Ordering::Relaxed) == 0));
}

#[test]
fn no_frame_that_is_cut_or_altered_does_harm() {
    let Some(mut plane) = tor() else { return };
    let tags = Tags { hit: 3, entry: Some((machine(3), server(2, 2))), ..Tags::default() };
    for frame in [valid(None), valid(Some(tags)), control().frame()] {
        for from_host in [false, true] {
            match from_host {
                true => attach(&mut plane, server(0, 0), false),
                false => plane.remove_interface(INTERFACE).expect("known"),
            }
            for bytes in 14..frame.len() {
                let (verdict, same, raised) = run(&mut plane, &frame[..bytes]);
                assert_eq!((verdict, same, raised), (PASS, true, vec![]), "{bytes} bytes");
            }
            for at in 0..frame.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut frame = frame.clone();
                    frame[at] ^= value;
                    let (verdict, ..) = run(&mut plane, &frame);
                    assert!(matches!(verdict, 1 | 2 | 4), "byte {at}: verdict {verdict}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let Some(mut plane) = tor() else { return };
    let mut frame =
        valid(Some(Tags { entry: Some((machine(3), server(2, 2))), ..Tags::default() }));
    frame[IP + 10] ^= 0x10;
    let passed = plane.run(&frame, 1).expect("it runs");
    assert_ne!(passed.frame, frame, "the entry was taken");
    assert!(switch::v2p::packet::Packet::read(&passed.frame).is_err());
}
