//! The resident memory of `enroute edge` stays within `memory` and the overhead that the guide
//! states, whatever clients send, request or leave unread; other clients are served throughout.
use std::{
    io::{BufRead, BufReader, Write},
    iter,
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use crate::support::{
    attacks::{Http2, field},
    edge::Edge,
    process::{at_once, raise_open_files, serve_each, until},
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.example";
const MIB: usize = 1 << 20;
const MEMORY: usize = 64 * MIB;
const CONNECTIONS: usize = 512;
/// The limit stated in `docs/guide/edge.md`.
const BOUND: usize = MEMORY + MEMORY / 16 + MEMORY / 4 + 96 * MIB + CONNECTIONS * (64 << 10);
const OPTIONS: &str = "[edge.content]\nmemory = \"64MiB\"\n[edge.limits]\nconnections_max = 512\n";
/// Just short enough to be stored, and more than the socket buffers hold.
const PAGE: usize = 12 * MIB;

/// An edge with an origin that sends any amount of data.
fn with_edge(test: impl FnOnce(&Edge<'_>)) {
    with_edge_of("", test);
}

fn with_edge_of(limits: &str, test: impl FnOnce(&Edge<'_>)) {
    let Some(workshop) = workshop() else { return };
    raise_open_files();
    workshop.certificate(SHOP, "ec");
    let site = workshop.site(SHOP, origin()) + "body_max = \"12MiB\"\n";
    let edge = workshop.start(&format!("{OPTIONS}{limits}"), &site);
    let witness = |edge: &Edge<'_>| {
        let answer = edge.curl(SHOP, "/small", &[]);
        assert_eq!((answer.status, &*answer.body), (200, "xxxxxxxx"), "{answer:?}");
    };
    witness(&edge);
    test(&edge);
    witness(&edge);
}

/// `/page/…` may be stored; `/stream/…` is long and may not; `/silent` is never answered; bodies
/// are not read.
fn origin() -> SocketAddr {
    serve_each(serve)
}

fn serve(mut client: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    loop {
        let mut lines = head(&mut reader);
        let target = lines.first()?.split(' ').nth(1)?.to_owned();
        let has_body = lines.drain(..).any(|line| {
            let line = line.to_ascii_lowercase();
            line.starts_with("content-length") || line.starts_with("transfer-encoding")
        });
        if has_body || target.starts_with("/silent") {
            loop {
                thread::park();
            }
        }
        let (said, length) = match &*target {
            "/small" => ("max-age=600", 8),
            page if page.starts_with("/page") => ("max-age=600", PAGE),
            _ => ("no-store", 300 * MIB),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncache-control: {said}\r\ncontent-length: {length}");
        write!(client, "{head}\r\n\r\n").ok()?;
        let piece = vec![b'x'; (64 << 10).min(length)];
        for _ in 0..length / piece.len() {
            client.write_all(&piece).ok()?;
        }
    }
}

/// The lines of a head; empty if it is incomplete.
fn head(reader: &mut impl BufRead) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return Vec::new();
        }
        if line == "\r\n" {
            return lines;
        }
        lines.push(line);
    }
}

fn check(edge: &Edge<'_>, attack: &str) {
    // Waits until nothing changes any more.
    let looks = || (edge.counted("requests"), edge.enroute.process().resident_bytes() / MIB);
    let mut seen = looks();
    until("it is over", || {
        thread::sleep(Duration::from_millis(500));
        std::mem::replace(&mut seen, looks()) == seen
    });
    let peak = edge.enroute.process().peak_bytes();
    let on_its_way = edge.counted("on_its_way_bytes");
    eprintln!(
        "{attack}: peak {} MiB, limit {} MiB; {on_its_way} counted, {} requests, {} refused, {} ended",
        peak / MIB,
        BOUND / MIB,
        edge.counted("requests"),
        edge.counted("no_room"),
        edge.counted("ended_for_room"),
    );
    assert!(peak <= BOUND, "{attack}: {peak} bytes resident, expected at most {BOUND}");
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {SHOP}\r\n\r\n").into_bytes()
}

fn block(method: &str, path: &str) -> Vec<u8> {
    let target = [field(":path", path), field(":authority", SHOP)].concat();
    [field(":method", method), field(":scheme", "https"), target].concat()
}

/// `SETTINGS_INITIAL_WINDOW_SIZE`.
fn windows_of(bytes: u32) -> Vec<u8> {
    [&[0, 4], &bytes.to_be_bytes()[..]].concat()
}

/// HTTP/1.1 clients that request these pages and do not read.
fn unread(edge: &Edge<'_>, count: usize, path: impl Fn(usize) -> String + Sync) -> Vec<Tls> {
    at_once(count, |number| {
        let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
        client.send(&get(&path(number)));
        client
    })
}

#[test]
fn slow_readers_of_huge_answers() {
    with_edge(|edge| {
        let _open = unread(edge, 200, |number| format!("/stream/{number}"));
        until("they are passed on", || edge.counted("requests") > 200);
        check(edge, "200 answers of 300 MiB that are read by none");
    });
}

#[test]
fn many_large_pages_that_are_stored_and_read_by_none() {
    with_edge(|edge| {
        let _open = unread(edge, 200, |number| format!("/page/{number}"));
        until("they are fetched", || edge.counted("requests") > 200);
        check(edge, "200 pages of 12 MiB at once");
        let _open = unread(edge, 200, |number| format!("/page/{}", number % 3));
        until("they are answered", || edge.counted("requests") > 400);
        check(edge, "3 pages of 12 MiB, asked for by 200");
    });
}

#[test]
fn headers_that_have_no_end_and_requests_that_have_no_answer() {
    with_edge(|edge| {
        let line = format!("X-Long: {}\r\n", "x".repeat(1_000));
        let _open = at_once(200, |_| {
            let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
            client.send(format!("GET / HTTP/1.1\r\n{}", line.repeat(30)).as_bytes());
            client
        });
        check(edge, "200 heads of 30 kB that are not whole");
        let long = field("x-long", &"x".repeat(28_000));
        let _open = at_once(60, |number| {
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let request = |at: u32| {
                let block =
                    [block("GET", &format!("/silent/{number}/{at}")), long.clone()].concat();
                Http2::begun(2 * at + 1, &block, true)
            };
            client.0.insist((0..100).map(request));
            client
        });
        check(edge, "6,000 requests with headers of 28 kB that the origin never answers");
    });
}

#[test]
fn windows_that_are_closed_and_windows_that_are_wide_open() {
    with_edge(|edge| {
        for (name, windows) in [("closed", 0), ("open", (1 << 31) - 1)] {
            let _open = at_once(20, |number| {
                let mut client = Http2::connect(edge.address, SHOP, &windows_of(windows));
                if windows > 0 {
                    client.0.send(&Http2::window((1 << 31) - 1 - 65_535));
                }
                for at in 0..100 {
                    let kind = if at % 2 == 0 { "page" } else { "stream" };
                    client.ask(2 * at + 1, &block("GET", &format!("/{kind}/{number}/{at}")));
                }
                client
            });
            check(edge, &format!("2,000 streams whose windows are {name}"));
        }
    });
}

#[test]
fn slow_uploads_to_an_origin_that_does_not_read() {
    with_edge(|edge| {
        let megabyte = || vec![b'x'; MIB];
        let _open = at_once(100, |_| {
            let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
            let head =
                format!("POST / HTTP/1.1\r\nHost: {SHOP}\r\nContent-Length: {}\r\n\r\n", 15 * MIB);
            client.insist(iter::once(head.into_bytes()).chain((0..15).map(|_| megabyte())));
            client
        });
        check(edge, "100 uploads of 15 MiB");
        let _open = at_once(100, |number| {
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            // The client opens the window at once.
            const WINDOW_UPDATE: u8 = 8;
            while client.0.frame().is_some_and(|(kind, ..)| kind != WINDOW_UPDATE) {}
            let post = Http2::begun(1, &block("POST", &format!("/{number}")), false);
            // As much as the connection's window allows.
            let data = (0..15).map(|_| Http2::data(1, &vec![b'x'; 16_000]));
            client.0.insist(iter::once(post).chain(data));
            client
        });
        check(edge, "100 uploads by HTTP/2");
    });
}

/// An edge that sends one request at a time to its origin, and one that is never answered: the
/// bodies of all other requests are not read.
fn with_bodies_unread(test: impl FnOnce(&Edge<'_>)) {
    with_edge_of("origin_connections_max = 1\norigin_timeout = \"10min\"\n", |edge| {
        let mut first = Tls::connect(edge.address, SHOP, "http/1.1");
        first.send(&get("/silent"));
        until("it is asked for", || edge.counted("requests") == 2);
        test(edge);
    });
}

#[test]
fn many_uploads_by_http2_of_which_little_comes() {
    const STREAMS: u32 = 128;
    with_bodies_unread(|edge| {
        let _open = at_once(400, |number| {
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let head =
                [block("POST", &format!("/{number}")), field("content-length", "2")].concat();
            let upload = |at: u32| {
                let stream = 2 * at + 1;
                [Http2::begun(stream, &head, false), Http2::data(stream, b"x")].concat()
            };
            client.0.insist((0..STREAMS).map(upload));
            client
        });
        check(edge, "51,200 uploads by HTTP/2 of one byte each");
    });
}

/// Bytes between two frames of a body are read with them, and buffered with the later one.
#[test]
fn uploads_by_http2_whose_frames_are_small_and_far_apart() {
    with_bodies_unread(|edge| {
        let _open = at_once(100, |number| {
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let post = Http2::begun(1, &block("POST", &format!("/{number}")), false);
            let apart = [Http2::data(1, b"x"), Http2::ignored(16_000)].concat();
            client.0.insist(iter::once(post).chain(iter::repeat_n(apart, 500)));
            client
        });
        check(edge, "100 uploads of 500 frames of a byte, 16 kB apart");
    });
}

#[test]
fn connections_that_say_nothing() {
    with_edge(|edge| {
        let _open = at_once(240, |_| Tls::connect(edge.address, SHOP, "http/1.1"));
        let _more = at_once(240, |_| Http2::connect(edge.address, SHOP, &[]));
        check(edge, "480 connections that say nothing");
    });
}
