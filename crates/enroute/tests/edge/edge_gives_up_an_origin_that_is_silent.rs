//! An origin's host is down, the path to it is cut, or a firewall dropped a connection, without any
//! packet that says so: clients do not wait for the response timeout. A slow origin that is
//! reachable is waited for.
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use crate::support::{
    directory::on_path,
    edge::{Edge, Origin},
    namespace::Namespace,
    origins::absent,
    process::{serve_each, until},
    workshop::workshop,
};

const SHOP: &str = "shop.example";
/// Responses may take longer than any client of the test waits.
const LIMITS: &str = "[edge.limits]\nconnect_timeout = \"2s\"\norigin_timeout = \"600s\"\n";

/// Runs `test` with an edge whose origin is another host, with the origin, and with both networks.
fn with_edge(test: impl FnOnce(&Edge<'_>, &Origin, &Namespace, &Namespace) + Send) {
    for tool in ["ip", "ss", "nft"] {
        if on_path(tool).is_none() {
            let _: Option<()> = absent(&format!("{tool} is not on PATH"));
            return;
        }
    }
    let (Some(near), Some(far)) = (Namespace::make(), Namespace::make()) else { return };
    far.join(("origin", "10.78.0.2/24"), &near, ("edge", "10.78.0.1/24"));
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = far.run(|| {
        Origin::start_at("10.78.0.2:8080", |asked| {
            // The host has received the request; then the path is cut.
            if asked.path == "/cut" {
                let cut = Command::new("ip").args(["link", "set", "origin", "down"]).status();
                assert!(cut.is_ok_and(|status| status.success()));
            }
            (200, "cache-control: no-store".into(), "content".into())
        })
    });
    near.run(|| {
        test(&workshop.start(LIMITS, &workshop.site(SHOP, origin.address)), &origin, &near, &far);
    });
}

#[test]
fn a_connection_that_the_path_has_forgotten_is_replaced() {
    with_edge(|edge, origin, near, far| {
        assert_eq!(edge.curl(SHOP, "/", &[]).body, "content");
        let ports = near.sh(
            "ss -Htn state established dport = :8080 | awk '{ sub(/.*:/, \"\", $3); print $3 }' | paste -sd,",
        );
        assert_ne!(ports.trim(), "", "no connection to the origin");
        far.sh(&format!(
            "nft 'add table inet f; add chain inet f c {{ type filter hook input priority 0; }}; \
             add rule inet f c tcp sport {{ {} }} drop'",
            ports.trim()
        ));
        let answer = edge.curl(SHOP, "/later", &[]);
        assert_eq!((answer.status, &*answer.body), (200, "content"));
        assert_eq!(origin.asked("/later").len(), 1);
    });
}

#[test]
fn a_client_that_waits_for_a_lost_answer_gets_an_error() {
    with_edge(|edge, origin, _, far| {
        let answer = edge.curl(SHOP, "/cut", &[]);
        assert_eq!(answer.status, 502, "{answer:?}");
        assert_eq!(origin.asked("/cut").len(), 1);
        far.sh("ip link set origin up");
        until("it is there again", || edge.curl(SHOP, "/", &[]).status == 200);
    });
}

/// Starts an origin that answers `answers` requests on each connection and closes it at the next;
/// returns the number of requests that it received.
fn fickle(answers: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let address = serve_each(move |client| {
        let mut reader = BufReader::new(&client);
        for number in 0..=answers {
            hear(&mut reader)?;
            count.fetch_add(1, SeqCst);
            if number < answers {
                (&client).write_all(ANSWER).ok()?;
            }
        }
        Some(())
    });
    (address, seen)
}

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 4\r\n\r\ndone";

/// Reads the head of one request; returns the length of its body.
fn hear(reader: &mut BufReader<&TcpStream>) -> Option<u64> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some(_) => {}
            None if line.trim_end().is_empty() => return Some(length),
            None => {}
        }
    }
}

#[test]
fn only_what_changes_nothing_is_asked_again_and_once() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    // Responses per connection, method, result of the second request, number of requests by then.
    for (answers, method, status, requests) in
        [(1, "GET", 200, 3), (1, "DELETE", 502, 2), (0, "GET", 502, 2)]
    {
        let (address, seen) = fickle(answers);
        let edge = workshop.start("", &workshop.site(SHOP, address));
        let ask = || edge.curl(SHOP, "/", &["-X", method]).status;
        let first = if answers == 0 { 502 } else { 200 };
        assert_eq!((ask(), ask()), (first, status), "{answers} {method}");
        assert_eq!(seen.load(SeqCst), requests, "{answers} {method}");
    }
}

/// Whatever closed one of the idle connections may have closed the others.
#[test]
fn a_repeated_request_takes_a_new_connection() {
    const KEPT: usize = 8;
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    let all_are_there = Arc::new(Barrier::new(KEPT));
    thread::spawn(move || {
        for (number, client) in socket.incoming().flatten().enumerate() {
            let all_are_there = Arc::clone(&all_are_there);
            thread::spawn(move || {
                let mut reader = BufReader::new(&client);
                hear(&mut reader)?;
                if number < KEPT {
                    all_are_there.wait();
                }
                (&client).write_all(ANSWER).ok()?;
                // The next request is the last.
                hear(&mut reader)
            });
        }
    });
    let edge = workshop.start("", &workshop.site(SHOP, address));
    thread::scope(|scope| {
        for number in 0..KEPT {
            let edge = &edge;
            scope
                .spawn(move || assert_eq!(edge.curl(SHOP, &format!("/{number}"), &[]).status, 200));
        }
    });
    assert_eq!(edge.curl(SHOP, "/again", &[]).status, 200);
}

/// To the edge's kernel, a closed window looks like an unreachable origin, and so may a slow
/// response.
#[test]
fn a_slow_origin_that_is_reachable_is_waited_for() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        for client in socket.incoming().flatten() {
            let mut reader = BufReader::new(&client);
            let length = hear(&mut reader)?;
            // Three times the timeout for unreachable origins.
            thread::sleep(Duration::from_secs(3));
            let read = io::copy(&mut reader.take(length), &mut io::sink()).ok()?;
            assert_eq!(read, length);
            (&client).write_all(ANSWER).ok()?;
        }
        Some(())
    });
    let limits = "[edge.limits]\nconnect_timeout = \"1s\"\n";
    let edge = workshop.start(limits, &workshop.site(SHOP, address));
    workshop.write("long", &"x".repeat(12 << 20));
    let body = format!("@{}", workshop.path("long").display());
    for options in [&["-X", "GET"][..], &["-H", "Expect:", "--data-binary", &body]] {
        let answer = edge.curl(SHOP, "/", options);
        assert_eq!((answer.status, &*answer.body), (200, "done"), "{options:?}: {answer:?}");
    }
}
