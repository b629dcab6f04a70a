//! Invalid frames, headers and handshakes at the edge: each closes its own connection, other
//! clients are served, and nothing of them reaches the origin.
use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::support::{
    attacks::{self, BOTH_LENGTHS},
    edge::{Asked, Origin, with_edge},
    process::free_address,
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
            // The chunked coding overrides the length (RFC 9112 §6.3), which must not be forwarded.
            assert!(name == BOTH_LENGTHS || !answer.contains(" 200 "), "{name}: {answer}");
            served();
        }
    }
    // Invalid handshakes, and some that stop.
    let mut noise = TcpStream::connect(edge.address).expect("it listens");
    noise.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = noise.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "without TLS it says that and no more: {answer}");
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
    assert!(grown < 64 << 20, "{grown} bytes of the input stay in memory");
    let asked = origin.asked("/");
    assert_eq!(asked.len(), 1, "an attack reached the origin: {asked:?}");
    assert_eq!((&*asked[0].method, asked[0].header("content-length")), ("POST", ""));
}

#[test]
fn a_body_that_is_too_long_does_not_reach_the_origin_whole() {
    let answer = |_: &str, _: u64, _: &Asked| (200, String::new());
    with_edge("[edge.limits]\nrequest_bytes_max = \"1KiB\"", "", answer, |edge, origin| {
        for protocol in ["--http1.1", "--http2"] {
            let post = |body: &str, options: &[&str]| {
                edge.try_curl(SHOP, "/", &[&[protocol, "-d", body], options].concat())
            };
            assert_eq!(post(&"x".repeat(1024), &[]).expect("an answer").status, 200);
            // A client that is still sending gets the reason for the rejection.
            for length in [1025, 100 << 10] {
                assert_eq!(post(&"x".repeat(length), &[]).expect("an answer").status, 413);
            }
            // A client that sends `Expect: 100-continue` receives no 100 response.
            let asks = ["-H", "Expect: 100-continue"];
            assert_eq!(post(&"x".repeat(1025), &asks).expect("an answer").status, 413);
            assert!(post(&"x".repeat(1024), &asks).is_ok());
            // A body without a stated length is rejected while it arrives.
            let unsaid = ["-H", "Transfer-Encoding: chunked"];
            let answer = post(&"x".repeat(1025), if protocol == "--http2" { &[] } else { &unsaid });
            assert_eq!(answer.map(|answer| answer.status), Ok(413), "{protocol}");
        }
        let whole = origin.asked("/");
        assert!(whole.iter().all(|asked| asked.body.len() <= 1024), "{whole:?}");
        // `Expect` applies to the connection between the client and the edge.
        assert!(whole.iter().all(|asked| asked.header("expect").is_empty()), "{whole:?}");
    });
}

/// A refused upload is read for a limited time.
#[test]
fn a_refused_upload_that_never_ends_is_cut_off() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let limits = "[edge.limits]\nrequest_bytes_max = \"1KiB\"\nidle_timeout = \"600s\"";
    let origin = free_address();
    let edge = workshop.start(limits, &workshop.site(SHOP, origin));
    let options = format!("-connect {} -servername {SHOP}", edge.address);
    let head = format!("POST / HTTP/1.1\r\nHost: {SHOP}\r\nContent-Length: 9000000\r\n\r\n");
    let send = |body: &[u8]| {
        attacks::send(&workshop.path(""), &options, &[head.as_bytes(), body].concat())
    };
    let answer = send(b"and no more").expect("the connection stays open");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(send(&vec![b'x'; 9_000_000]).is_some(), "all of it is heard");
}
