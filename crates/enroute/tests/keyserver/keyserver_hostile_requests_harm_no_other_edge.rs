//! Invalid TLS, HTTP and SKI; requests that are too long, too many or too slow: each is refused,
//! and other edges are served. Edges reconnect to a key server that was down.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::support::{
    attacks,
    keyserver::{self, Site, exchange_request, runtime, verify_request},
    process::free_address,
};
use keyservice::{Client, ClientConfiguration, ClientError};
use wire::ski::{KeyId, Refusal, Request, Scheme};

fn site() -> Option<(Site, String)> {
    let site = Site::create()?;
    site.key("one", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let one = site.import("one", &[]);
    Some((site, one))
}

fn request(id: &str) -> Request {
    keyserver::request(id, Scheme::EcdsaP256Sha256)
}

#[test]
fn hostile_requests_are_refused_one_by_one() {
    let Some((site, one)) = site() else { return };
    let server = site.serve(&[]);
    let (runtime, witness) = (runtime(), site.client(&server, 1));
    let ask = || runtime.block_on(witness.ask(&request(&one))).expect("a signature");
    ask();
    let scheme = "ecdsa_secp256r1_sha256";
    let good = verify_request(&one, scheme, &[1; 32]);
    let digest = "\"input\":\"";
    for malformed in [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        "[".repeat(1500),
        "{\"protocol\":".repeat(100),
        good.replace("TLS 1.3", "TLS 1.2"),
        good.replace("TLS 1.3", "TLS 1.0"),
        good.replace("CertificateVerify", "SIGN"),
        good.replace(digest, "\"digest\":\""),
        good.replace(digest, "\"input\":\"AA==\",\"input\":\""),
        good.replace('{', "{\"server_name\":\"a\\nb\","),
        good.replace(&one, &one[1..]),
        good.replace(scheme, "rsa_pss_rsae_sha256"),
        verify_request(&one, scheme, &[1; 20]),
        verify_request(&one, scheme, &[0x20; 130]),
        // Digests in place of the draft's 133 bytes.
        exchange_request(&one, "SHA-256", &[1; 32]),
        exchange_request(&one, "SHA-256", &[1; 133]),
        // 133 bytes whose point is not on the curve.
        exchange_request(&one, "SHA-256", &[&[1; 64][..], &[3, 0, 23, 65, 4], &[9; 64]].concat()),
    ] {
        let refusal = site.refusal(&server, "edge1.example", &malformed);
        assert_eq!(refusal, "malformed request", "{malformed}");
    }
    let long = good.replace('{', &format!("{{\"server_name\":\"{}\",", "a".repeat(3000)));
    for version in ["--http1.1", "--http2"] {
        let status = |options: &[&str]| {
            site.curl(&server, "edge1.example", &[&[version], options].concat()).1
        };
        assert_eq!(status(&["--data-binary", &long]), 413);
        assert_eq!(status(&["-X", "GET"]), 405);
        assert_eq!(status(&["-X", "PUT", "--data-binary", &good]), 405);
        assert_eq!(status(&["--data-binary", &good, "--request-target", "/stats"]), 404);
    }
    ask();

    // No TLS at all, and a handshake that stops.
    let mut noise = TcpStream::connect(server.address).unwrap();
    noise.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = noise.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "without TLS it says that and no more: {answer}");
    let mut idle: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    idle.iter_mut().for_each(|stream| stream.write_all(&[22, 3, 1]).unwrap());
    ask();
    // The witness stayed connected throughout; the log has the others.
    let log = String::from_utf8(site.read("audit.log")).unwrap();
    assert_eq!(log.matches("edge1.example").count(), log.lines().count() - 1);
}

/// Sent by an edge with a certificate: each closes its own connection; the other connections
/// continue.
#[test]
fn hostile_frames_end_their_connection_and_no_other() {
    let Some((site, one)) = site() else { return };
    let server = site.serve(&["--log", "info"]);
    let (runtime, witness) = (runtime(), site.client(&server, 1));
    let ask = || runtime.block_on(witness.ask(&request(&one))).expect("a signature");
    ask();
    let resident = || server.process().resident_bytes();
    let before = resident();
    let connect = format!(
        "-connect {} -cert edge1.example.pem -key edge1.example.key -CAfile ca.pem",
        server.address
    );
    // A valid request is answered.
    let body = verify_request(&one, "ecdsa_secp256r1_sha256", &[1; 32]);
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n");
    let good = head + "Connection: close\r\n\r\n" + &body;
    let answer = attacks::send(&site.path(""), &connect, good.as_bytes()).expect("it closes");
    assert!(String::from_utf8_lossy(&answer).contains("output"), "{answer:?}");
    for (protocol, attacks) in [("h2", attacks::of_http2()), ("http/1.1", attacks::of_http1())] {
        for (name, bytes) in attacks {
            let options = format!("{connect} -alpn {protocol}");
            let answer = attacks::send(&site.path(""), &options, &bytes);
            let answer = answer.unwrap_or_else(|| panic!("{name}: the connection stays open"));
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(!answer.contains("output") && !answer.contains(" 200 "), "{name}: {answer}");
            ask();
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes of the input stay in memory");
}

#[test]
fn an_edge_finds_its_key_server_again() {
    let Some((site, one)) = site() else { return };
    let address = free_address().to_string();
    let server = site.serve(&["--listen", &address]);
    let (runtime, edge) = (runtime(), site.client(&server, 2));
    let ask = || runtime.block_on(edge.ask(&request(&one)));
    let unknown = Request { key: KeyId([0; 32]), ..request(&one) };
    assert!(matches!(
        runtime.block_on(edge.ask(&unknown)),
        Err(ClientError::Refused(Refusal::NotFound))
    ));
    // Many requests on few connections.
    let answers = runtime.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..300 {
            let (edge, one) = (edge.clone(), one.clone());
            all.spawn(async move { edge.ask(&request(&one)).await });
        }
        all.join_all().await
    });
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    server.terminate();
    assert!(matches!(ask(), Err(ClientError::Unreachable { .. })));
    let server = site.serve(&["--listen", &address]);
    ask().expect("it is back");
    drop(server);
    assert!(ask().is_err());
}

#[test]
fn an_edge_asks_only_its_own_key_server() {
    let Some((site, one)) = site() else { return };
    site.certificate("other", "ec");
    let server = site.serve(&["--log", "info"]);
    let right = site.configuration(&server, 1);
    for wrong in [
        ClientConfiguration { server_name: Some("keys.example".to_owned()), ..right.clone() },
        ClientConfiguration { server_name: None, ..right.clone() },
        ClientConfiguration { authorities: site.path("other.pem"), ..right.clone() },
    ] {
        let edge = Client::new(wrong.clone()).expect("certificates");
        let answer = runtime().block_on(edge.ask(&request(&one)));
        let Err(ClientError::Unreachable { reason, .. }) = &answer else {
            panic!("{wrong:?}: {answer:?}");
        };
        assert!(reason.contains("certificate"), "{wrong:?}: {reason}");
    }
    let edge = Client::new(right).expect("certificates");
    runtime().block_on(edge.ask(&request(&one))).expect("a signature");
    let log = String::from_utf8(site.read("audit.log")).unwrap();
    assert_eq!(log.matches("edge1.example").count(), 1, "{log}");
}
