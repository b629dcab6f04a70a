//! An origin is down, slow, broken or stops in the middle of a response: stored responses are
//! served where that is allowed, all other clients get an error, and no partial response counts as
//! complete.
use std::{
    io::{BufRead, BufReader, Write},
    iter,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use crate::support::{
    edge::{Asked, with_edge},
    process::{free_address, until},
    workshop::workshop,
};

const SHOP: &str = "shop.example";

#[test]
fn stale_if_error_covers_an_origin_that_fails() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let answer = move |path: &str, _: u64, _: &Asked| {
        let lines = match path {
            "/covered" => "cache-control: max-age=10, stale-if-error=600\nage: 10",
            _ => "cache-control: max-age=10, must-revalidate\nage: 10\netag: \"a\"",
        };
        (if failing.load(SeqCst) { 503 } else { 200 }, lines.to_owned())
    };
    with_edge("", "", answer, |edge, _| {
        let (covered, not) =
            (edge.curl(SHOP, "/covered", &[]).body, edge.curl(SHOP, "/not", &[]).body);
        fails.store(true, SeqCst);
        let answer = edge.curl(SHOP, "/covered", &[]);
        assert_eq!((answer.status, &answer.body), (200, &covered), "{answer:?}");
        assert_eq!(answer.cache(), "hit; detail=stale-if-error");
        let answer = edge.curl(SHOP, "/not", &[]);
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_ne!(answer.body, not);
    });
}

#[test]
fn an_origin_that_is_gone_is_a_502_and_hits_go_on() {
    let answer = |path: &str, _: u64, _: &Asked| {
        let lines = match path {
            "/fresh" => "cache-control: max-age=600",
            "/covered" => "cache-control: max-age=10, stale-if-error=600\nage: 10",
            _ => "cache-control: max-age=10\nage: 10\netag: \"a\"",
        };
        (200, lines.to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        let before = ["/fresh", "/covered", "/stale"].map(|path| edge.curl(SHOP, path, &[]).body);
        origin.go();
        let fresh = edge.curl(SHOP, "/fresh", &[]);
        assert_eq!((&fresh.body, fresh.cache()), (&before[0], "hit"));
        let covered = edge.curl(SHOP, "/covered", &[]);
        assert_eq!((&covered.body, covered.cache()), (&before[1], "hit; detail=stale-if-error"));
        for path in ["/stale", "/new"] {
            let answer = edge.curl(SHOP, path, &[]);
            assert_eq!(answer.status, 502, "{answer:?}");
            assert!(answer.body.contains("the origin does not answer"), "{answer:?}");
        }
    });
    // The origin has never listened.
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let edge = workshop.start("", &workshop.site(SHOP, free_address()));
    assert_eq!(edge.curl(SHOP, "/", &[]).status, 502);
}

#[test]
fn an_origin_that_takes_too_long_is_a_504() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, _: &Asked| {
        until("all clients were answered", || gate.load(SeqCst));
        (200, "cache-control: max-age=60".to_owned())
    };
    with_edge("[edge.limits]\norigin_timeout = \"1s\"", "", answer, |edge, _| {
        for method in ["GET", "POST"] {
            assert_eq!(edge.curl(SHOP, "/", &["-X", method]).status, 504, "{method}");
        }
        go.store(true, SeqCst);
    });
}

#[test]
fn what_broke_off_is_neither_stored_nor_taken_for_whole() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        // One response per connection, which is then closed: with a length, chunked, and complete.
        for rest in
            ["content-length: 9\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
                .into_iter()
                .chain(iter::repeat("content-length: 5\r\n\r\nwhole"))
        {
            let (mut client, _) = socket.accept().expect("an edge");
            let mut lines = BufReader::new(client.try_clone().expect("another")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nconnection: close\r\n";
            write!(client, "{head}{rest}").expect("sent");
        }
    });
    let edge = workshop.start("", &workshop.site(SHOP, address));
    for _ in 0..2 {
        assert_eq!(edge.curl(SHOP, "/", &[]).status, 502);
    }
    let answer = edge.curl(SHOP, "/", &[]);
    assert_eq!((&*answer.body, answer.cache()), ("whole", "fwd=miss; stored"));
    assert_eq!(edge.curl(SHOP, "/", &[]).cache(), "hit");
}
