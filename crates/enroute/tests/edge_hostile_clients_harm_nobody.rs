//! Frames, heads and handshakes that are none, at the edge: each ends its own connection, whoever
//! asks properly is served, and nothing of them reaches the origin.
#![cfg(feature = "edge")]

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use support::{
    attacks::{self, BOTH_LENGTHS},
    edge::Origin,
    workshop::workshop,
};

const SHOP: &str = "shop.example";

#[test]
fn a_handshake_gives_its_place_back_however_it_ends() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = Origin::start(|_| (200, "cache-control: no-store".into(), "page".into()));
    let limits = "[edge.limits]\nhandshakes_max = 2\n";
    let edge = workshop.start(limits, &workshop.site(SHOP, origin.address));
    for _ in 0..3 {
        assert_eq!(edge.curl(SHOP, "/", &[]).body, "page");
        let said = edge.openssl(SHOP, "-alpn ftp", "");
        assert!(said.contains("alert no application protocol"), "{said}");
    }
}

#[test]
fn each_ends_its_own_connection() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = Origin::start(|_| (200, "cache-control: no-store".into(), "page".into()));
    let edge = workshop.start("", &workshop.site(SHOP, origin.address));
    let served = || assert_eq!(edge.curl(SHOP, "/page", &[]).body, "page");
    served();
    let before = edge.enroute.process().resident_bytes();
    let connect = format!("-connect {} -servername {SHOP}", edge.address);
    for (protocol, attacks) in [("h2", attacks::of_http2()), ("http/1.1", attacks::of_http1())] {
        for (name, bytes) in attacks {
            let options = format!("{connect} -alpn {protocol}");
            let answer = attacks::send(&workshop.path(""), &options, &bytes);
            let answer = answer.unwrap_or_else(|| panic!("{name}: the connection stays open"));
            let answer = String::from_utf8_lossy(&answer).into_owned();
            // Chunks count then (RFC 9112 §6.3), and the origin must not be told of a length.
            assert!(name == BOTH_LENGTHS || !answer.contains(" 200 "), "{name}: {answer}");
            served();
        }
    }
    // Handshakes that are none, and some that stop.
    let mut noise = TcpStream::connect(edge.address).expect("it listens");
    noise.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = noise.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "it answers without TLS");
    let stopped: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(edge.address).expect("it listens");
            stream.write_all(&[22, 3, 1]).expect("sent");
            stream
        })
        .collect();
    served();
    drop(stopped);
    let grown = edge.enroute.process().resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it keeps {grown} bytes of what was sent");
    let asked = origin.asked("/");
    assert_eq!(asked.len(), 1, "an attack reached the origin: {asked:?}");
    assert_eq!((&*asked[0].method, asked[0].header("content-length")), ("POST", ""));
}
