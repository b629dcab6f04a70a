//! The number of concurrent requests of an edge to an origin is limited; further requests wait for
//! a connection, and get an error after a timeout.
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use crate::support::{
    edge::{Asked, Edge, Origin, with_edge as with_edge_of},
    process::{at_once, until},
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.example";
const TURNS: usize = 4;
const CLIENTS: usize = 16;

/// Runs `test` with an edge whose origin responds when it is allowed to, and with the maximum
/// number of its concurrent requests.
fn with_edge(test: impl FnOnce(&Edge<'_>, &AtomicBool, &AtomicUsize)) {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let shared = Arc::new((AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0)));
    let seen = Arc::clone(&shared);
    let origin = Origin::start(move |asked| {
        let (may_answer, now, most) = &*seen;
        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        while asked.path != "/stored" && !may_answer.load(SeqCst) {
            thread::sleep(Duration::from_millis(2));
        }
        now.fetch_sub(1, SeqCst);
        let said = if asked.path == "/stored" { "max-age=600" } else { "no-store" };
        (200, format!("cache-control: {said}"), "page".to_owned())
    });
    let limits =
        format!("[edge.limits]\norigin_connections_max = {TURNS}\norigin_timeout = \"60s\"\n");
    let edge = workshop.start(&limits, &workshop.site(SHOP, origin.address));
    assert_eq!(edge.curl(SHOP, "/stored", &[]).status, 200);
    test(&edge, &shared.0, &shared.2);
}

#[test]
fn others_wait_for_their_turn() {
    with_edge(|edge, may_answer, most| {
        let answers = thread::scope(|scope| {
            let asking = scope.spawn(|| {
                at_once(CLIENTS, |number| edge.curl(SHOP, &format!("/{number}"), &[]).status)
            });
            until("all have asked", || edge.counted("requests") == CLIENTS as u64 + 1);
            until("as many as may are asked", || most.load(SeqCst) == TURNS);
            // Stored responses need no connection to the origin.
            assert_eq!(edge.curl(SHOP, "/stored", &[]).cache(), "hit");
            may_answer.store(true, SeqCst);
            asking.join().expect("it ends")
        });
        assert_eq!(answers, [200; CLIENTS]);
        assert_eq!(most.load(SeqCst), TURNS);
    });
}

/// An origin that answers `/again`, and sends only the head of all other responses; also returns
/// the number of these.
fn unfinished_origin() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    thread::spawn(move || {
        let mut open = Vec::new();
        for mut client in listener.incoming().flatten() {
            let mut asked = [0; 4096];
            let read = client.read(&mut asked).unwrap_or(0);
            let head = "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 4\r\n\r\n";
            let body = if asked[..read].starts_with(b"GET /again ") { "page" } else { "" };
            let _ = client.write_all(format!("{head}{body}").as_bytes());
            count.fetch_add(1, SeqCst);
            open.push(client);
        }
    });
    (address, sent)
}

#[test]
fn where_none_comes_they_are_told() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let (origin, sent) = unfinished_origin();
    let limits = "[edge.limits]\norigin_connections_max = 4\norigin_timeout = \"2s\"\n";
    let edge = workshop.start(limits, &workshop.site(SHOP, origin));
    let holding = at_once(TURNS, |number| {
        let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: {SHOP}\r\n\r\n").as_bytes());
        client
    });
    until("all turns are taken", || sent.load(SeqCst) == TURNS);
    assert_eq!(edge.curl(SHOP, "/again", &[]).status, 503);
    let line = edge.enroute.stderr_line("origin_connections_max");
    assert!(
        line.contains("4 requests to it (origin_connections_max) have been in progress"),
        "{line}"
    );
    assert_eq!(sent.load(SeqCst), TURNS);
    drop(holding);
    until("it is served again", || edge.curl(SHOP, "/again", &[]).status == 200);
}

#[test]
fn one_turn_is_enough_to_ask_twice() {
    // A 304 for another response makes the edge request again.
    let answer = |_: &str, _: u64, asked: &Asked| match asked.header("if-none-match") {
        "" => (200, "cache-control: no-cache\netag: \"a\"".to_owned()),
        _ => (304, "etag: \"b\"".to_owned()),
    };
    with_edge_of("[edge.limits]\norigin_connections_max = 1", "", answer, |edge, _| {
        for _ in 0..2 {
            assert_eq!(edge.curl(SHOP, "/page", &[]).status, 200);
        }
    });
}
