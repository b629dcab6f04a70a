//! A client that sends plain HTTP to the edge gets an HTTP error, and is logged once.
use crate::support::{edge::with_edge, raw::Raw};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n";

#[test]
fn edge_names_clients_without_tls() {
    let page = |_: &str, _: u64, _: &crate::support::edge::Asked| (200, String::new());
    with_edge("", "", page, |edge, _| {
        for said in [REQUEST, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let mut client = Raw::connect(edge.address);
            client.say(said);
            let answer = client.hear_bytes_until_end();
            assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", answer.escape_ascii());
            assert!(String::from_utf8_lossy(&answer).contains("connect with TLS"));
        }
        let line = edge.enroute.stderr_line("expected TLS, got HTTP");
        assert!(line.contains(&format!("listen={}", edge.address)), "{line}");
        let log = edge.enroute.process().stderr();
        assert_eq!(log.matches("got HTTP").count(), 1, "{log}");
        // In pieces, while others are served.
        let mut slow = Raw::connect(edge.address);
        slow.say("GE");
        assert_eq!(edge.curl("shop.example", "/", &[]).status, 200);
        slow.say(&REQUEST[2..]);
        assert!(slow.hear_bytes_until_end().starts_with(b"HTTP/1.1 400 "));
    });
}
