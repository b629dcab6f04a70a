//! A flood of refused connections and requests causes one log line per cause and interval. The
//! audit log has a line for each request, as intended.

use std::time::Instant;

use crate::support::{
    attacks,
    keyserver::{Site, verify_request},
    raw::Raw,
};

const CONNECTIONS: usize = 300;
/// Seconds between two log lines about one cause.
const PAUSE: u64 = 10;

#[test]
fn strangers_cannot_fill_its_log() {
    let Some(site) = Site::create() else { return };
    let server = site.serve(&["--log", "info"]);
    let before = server.process().stderr().lines().count();
    let began = Instant::now();
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[0x5a; 505]].concat();
    let said: [&[u8]; 5] =
        [b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"*1\r\n$4\r\nPING\r\n", &hello, &[0xff; 64], b""];
    for _ in 0..CONNECTIONS {
        for said in said {
            let mut client = Raw::connect(server.address);
            client.say(said);
            client.end();
            client.hear_bytes_until_end();
        }
    }
    // An edge whose requests are refused: for an unknown key, and malformed ones.
    let unknown = verify_request(&"00".repeat(32), "ecdsa_secp256r1_sha256", &[1; 32]);
    let requests: String = [&unknown[..], "{"]
        .iter()
        .cycle()
        .take(CONNECTIONS)
        .map(|body| {
            format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        })
        .collect();
    let options = format!(
        "-connect {} -cert edge1.example.pem -key edge1.example.key -CAfile ca.pem -alpn http/1.1",
        server.address
    );
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = attacks::send(&site.path(""), &options, (requests + last).as_bytes());
    let answer = String::from_utf8_lossy(&answer.expect("it closes")).into_owned();
    assert!(answer.matches("HTTP/1.1 200").count() >= CONNECTIONS, "all are answered: {answer}");
    let log = server.process().stderr();
    let lines = log.lines().count() - before;
    // HTTP, Redis, a broken handshake, and the two refusals are separate causes.
    let causes = 5;
    let most = causes * (1 + began.elapsed().as_secs() / PAUSE) as usize;
    assert!((1..=most).contains(&lines), "{lines} lines, not 1 to {most}: {log}");
    assert!(log.contains("got HTTP"), "{log}");
}
