//! `enroute switch v2p` on a router between two hosts: it learns the sender of a packet, resolves a
//! destination, drops packets that only switches may send, and reports this.

use std::net::{Ipv4Addr, UdpSocket};

use crate::rack::{Rack, SERVER, wait};
use switch::v2p::{
    config::Encapsulation,
    packet::{Control, Tunnelled},
};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
const MACHINE: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
/// Bytes of a datagram's headers that the kernel writes.
const OUTER_BYTES: usize = 14 + 20 + 8;

fn packet(outer: (Ipv4Addr, Ipv4Addr), inner: (Ipv4Addr, Ipv4Addr)) -> Vec<u8> {
    let packet =
        Tunnelled { outer, hops: 64, port: 40_000, tags: None, inner, payload: vec![7; 8] };
    packet.frame(Encapsulation::Vxlan(42))
}

fn counter(rack: &Rack, name: &str) -> u64 {
    let said = rack.enroute("s", &["v2p", "status"]);
    let line = said.lines().find(|line| line.split(' ').next() == Some(name)).expect("a counter");
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn and_says_what_it_did() {
    let Some(rack) = Rack::build() else { return };
    let host = format!("client0={CLIENT}");
    let attach =
        ["v2p", "attach", "--role", "tor", "--id", "3", "--gateway", SERVER, "--host", &host];
    rack.enroute("s", &[&attach[..], &["--interface", "server0", "--entries", "64"]].concat());

    let frame = packet((CLIENT, GATEWAY), (MACHINE, OTHER));
    let forged =
        Control { outer: (CLIENT, GATEWAY), invalidation: false, mapping: (OTHER, CLIENT) };
    rack.within("c", || {
        let socket = UdpSocket::bind((CLIENT, 0)).expect("a socket");
        socket.send_to(&frame[OUTER_BYTES..], (GATEWAY, 4789)).expect("it is sent");
        socket.send_to(&forged.frame()[OUTER_BYTES..], (GATEWAY, 333)).expect("it is sent");
    });
    wait("both are seen", || counter(&rack, "FORGED") == 1 && counter(&rack, "PACKETS") == 1);
    assert_eq!(counter(&rack, "HITS"), 0);

    let answer = packet((Ipv4Addr::new(10, 3, 0, 1), GATEWAY), (OTHER, MACHINE));
    let hexadecimal: String = answer.iter().map(|byte| format!("{byte:02x}")).collect();
    let said = rack.enroute("s", &["v2p", "explain", &hexadecimal]);
    assert!(said.contains("counted HITS"), "{said}");
    assert!(said.contains("in 10.3.0.1 > 10.1.0.2, resolved by switch 3"), "{said}");
    assert!(said.contains("172.16.0.1 is at 10.1.0.2, access bit 1"), "{said}");
    let said = rack.enroute("s", &["v2p", "status"]);
    assert!(said.contains("3 (tor), 10.255.0.3"), "{said}");
    assert!(said.contains("2 of 64, 1 with the access bit"), "{said}");

    let said = rack.enroute("s", &["v2p", "detach"]);
    assert!(said.contains("detached from server0\n"), "{said}");
    assert_eq!(said.lines().count(), said.matches("detached from").count(), "{said}");
    let said = rack.enroute("s", &["v2p", "detach"]);
    assert!(said.starts_with("nothing was attached with --pins"), "{said}");
    let name = rack.pins.file_name().expect("a name").to_string_lossy();
    assert!(!rack.pins.with_file_name(format!("{name}-v2p")).exists(), "detach removes its pins");

    // A failed attach leaves nothing behind.
    let absent = ["--interface", "absent0"];
    let refused = rack.said_by("s", &[&attach[..], &absent].concat());
    assert!(refused.contains("absent0"), "{refused}");
    let gone = rack.said_by("s", &["v2p", "status"]);
    assert!(gone.contains("run `enroute switch v2p attach`"), "{gone}");
}
