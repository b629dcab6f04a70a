//! A request that is pipelined before a malformed one is answered, then the error is sent, then the
//! connection is closed.
use crate::support::{edge::with_edge, tls::Tls};

const SHOP: &str = "shop.example";

#[test]
fn edge_answers_what_came_before_a_malformed_request() {
    let page = |_: &str, _: u64, _: &crate::support::edge::Asked| (200, String::new());
    with_edge("", "", page, |edge, origin| {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {SHOP}\r\n\r\n");
        for (number, malformed) in
            ["GET\r\n\r\n", "GET / HTTP/1.1\r\nHo st: x\r\n\r\n", "\0\r\n\r\n"]
                .into_iter()
                .enumerate()
        {
            let paths = [format!("/{number}/a"), format!("/{number}/b")];
            let said: String = paths.iter().map(|path| get(path)).collect();
            let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
            client.send(format!("{said}{malformed}{}", get("/behind")).as_bytes());
            for path in &paths {
                let answer = client.answer(false).expect("an answer");
                assert_eq!(answer.status, 200, "{malformed:?}");
                assert_eq!(origin.asked(path).len(), 1, "{malformed:?}");
            }
            assert_eq!(
                client.answer(false).map(|answer| answer.status),
                Some(400),
                "{malformed:?}"
            );
            assert!(client.answer(false).is_none(), "{malformed:?}: it is closed");
        }
        assert!(origin.asked("/behind").is_empty(), "nothing is read after it");
    });
}
