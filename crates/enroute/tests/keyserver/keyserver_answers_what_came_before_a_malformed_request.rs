//! A request that arrives with a malformed one behind it is answered, then the error is sent, then
//! the connection is closed.

use crate::support::{
    attacks,
    keyserver::{Site, verify_request},
};

#[test]
fn keyserver_answers_what_came_before_a_malformed_request() {
    let Some(site) = Site::create() else { return };
    site.key("one", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let id = site.import("one", &[]);
    let server = site.serve(&[]);
    let options = format!(
        "-connect {} -cert edge1.example.pem -key edge1.example.key -CAfile ca.pem -alpn http/1.1",
        server.address
    );
    let body = verify_request(&id, "ecdsa_secp256r1_sha256", &[1; 32]);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let good = head + &body;
    let said = format!("{good}{good}POST\r\n\r\n{good}");
    let answer = attacks::send(&site.path(""), &options, said.as_bytes()).expect("it closes");
    let answer = String::from_utf8_lossy(&answer);
    let places = ["\"output\"", " 400 "].map(|part| answer.match_indices(part).collect::<Vec<_>>());
    assert_eq!(places.each_ref().map(Vec::len), [2, 1], "{answer}");
    assert!(places[0][1].0 < places[1][0].0, "in this order: {answer}");
}
