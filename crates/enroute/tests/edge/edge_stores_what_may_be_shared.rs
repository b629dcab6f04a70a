//! The rules of an HTTP cache, end to end: which requests reach the origin, and which responses are
//! returned.
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use crate::support::{
    database::Database,
    edge::{Asked, Origin, with_edge},
    process::until,
    workshop::workshop,
};

const SHOP: &str = "shop.example";

#[test]
fn each_directive_does_what_it_says() {
    // Header of the origin; options of the second request; expected result.
    let table: &[(&str, &[&str], &str)] = &[
        ("cache-control: max-age=60", &[], "hit"),
        ("cache-control: s-maxage=60, max-age=0", &[], "hit"),
        ("cache-control: public, max-age=60", &["-H", "Authorization: Basic eA=="], "hit"),
        ("cache-control: max-age=60\nset-cookie: a=b", &[], "fwd=miss"),
        ("cache-control: private, max-age=60", &[], "fwd=miss"),
        ("cache-control: no-store", &[], "fwd=miss"),
        ("cache-control: max-age=60\nvary: *", &[], "fwd=miss"),
        ("x-nothing: said", &[], "fwd=miss"),
        ("cache-control: max-age=60", &["-H", "Cache-Control: no-cache"], "fwd=stale; stored"),
        ("cache-control: no-cache\netag: \"a\"", &[], "fwd=stale; stored"),
        ("cache-control: max-age=60\nvary: accept", &["-H", "Accept: a/b"], "fwd=miss; stored"),
        ("cache-control: max-age=60\nvary: x-other", &["-H", "Accept: a/b"], "hit"),
    ];
    let lines: Vec<String> = table.iter().map(|(lines, ..)| (*lines).to_owned()).collect();
    let answer = move |path: &str, _: u64, _: &Asked| {
        let row: usize = path.trim_start_matches('/').parse().expect("a row");
        (200, lines[row].clone())
    };
    with_edge("", "", answer, |edge, origin| {
        for (row, (lines, options, expected)) in table.iter().enumerate() {
            let path = format!("/{row}");
            let first = edge.curl(SHOP, &path, &[]);
            assert!(first.cache().starts_with("fwd=miss"), "{lines:?} first: {first:?}");
            let second = edge.curl(SHOP, &path, options);
            assert_eq!(second.cache(), *expected, "{lines:?}: {second:?}");
            let asked = if *expected == "hit" { 1 } else { 2 };
            assert_eq!(origin.asked(&path).len(), asked, "{lines:?}");
            assert_eq!(second.body == first.body, asked == 1, "{lines:?}: {second:?}");
        }
    });
}

#[test]
fn what_is_stale_is_asked_about_with_its_validator() {
    let answer = |_: &str, _: u64, asked: &Asked| match asked.header("if-none-match") {
        "\"v1\"" => (304, "cache-control: max-age=60".to_owned()),
        _ => (200, "cache-control: max-age=10\nage: 10\netag: \"v1\"".to_owned()),
    };
    with_edge("", "", answer, |edge, origin| {
        assert_eq!(edge.curl(SHOP, "/", &[]).body, "answer 1");
        let second = edge.curl(SHOP, "/", &[]);
        assert_eq!(second.cache(), "fwd=stale; fwd-status=304; stored", "{second:?}");
        assert_eq!(second.body, "answer 1");
        // The 304 made it fresh.
        assert_eq!(edge.curl(SHOP, "/", &[]).cache(), "hit");
        assert_eq!(origin.asked("/").len(), 2);
    });
}

#[test]
fn a_304_can_end_the_sharing() {
    let answer = |_: &str, _: u64, asked: &Asked| match asked.header("if-none-match") {
        "\"v1\"" => (304, "cache-control: private".to_owned()),
        _ => (200, "cache-control: max-age=10\nage: 10\netag: \"v1\"".to_owned()),
    };
    with_edge("", "", answer, |edge, _| {
        let told = [(); 3].map(|()| edge.curl(SHOP, "/", &[]).cache().to_owned());
        assert_eq!(told, ["fwd=miss; stored", "fwd=stale; fwd-status=304", "fwd=miss; stored"]);
    });
}

#[test]
fn what_is_for_one_client_is_asked_as_it_came() {
    let answer = |_: &str, _: u64, _: &Asked| (200, "x-nothing: said".to_owned());
    with_edge("", "", answer, |edge, origin| {
        let lines = ["Authorization: Basic eA==", "Cache-Control: no-store"];
        for (path, line) in ["/1", "/2"].into_iter().zip(lines) {
            edge.curl(SHOP, path, &["-r", "0-3", "-H", line]);
            assert_eq!(origin.asked(path)[0].header("range"), "bytes=0-3", "{line}");
        }
        edge.curl(SHOP, "/3", &["--head"]);
        assert_eq!(origin.asked("/3")[0].method, "HEAD");
    });
}

/// With curl: validators of both kinds, and a resumed download.
#[test]
fn a_client_with_an_old_or_a_partial_copy_gets_what_it_needs() {
    let answer = |_: &str, _: u64, _: &Asked| {
        let lines = "cache-control: max-age=600\netag: \"v1\"\n\
                     last-modified: Sun, 06 Nov 1994 08:49:37 GMT";
        (200, lines.to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        for protocol in ["--http1.1", "--http2"] {
            let get = |options: &[&str]| edge.curl(SHOP, "/", &[&[protocol], options].concat());
            assert_eq!((get(&[]).status, &*get(&[]).body), (200, "answer 1"));
            assert_eq!(get(&["-z", "Sun, 06 Nov 1994 08:49:37 GMT"]).status, 304);
            assert_eq!(get(&["-z", "Sat, 05 Nov 1994 08:49:37 GMT"]).status, 200);
            let range = ["-r", "7-", "-H"];
            let same = get(&[&range[..], &["If-Range: \"v1\""]].concat());
            assert_eq!((same.status, &*same.body), (206, "1"));
            let other = get(&[&range[..], &["If-Range: \"v0\""]].concat());
            assert_eq!((other.status, &*other.body), (200, "answer 1"));
        }
        assert_eq!(origin.asked("/").len(), 1);
    });
}

#[test]
fn a_change_forgets_every_variant() {
    let answer = |_: &str, _: u64, _: &Asked| {
        (200, "cache-control: max-age=60\nvary: accept-language".to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        let get = |language: &str| {
            let header = format!("Accept-Language: {language}");
            edge.curl(SHOP, "/", &["-H", &header])
        };
        assert_eq!([get("de").body, get("en").body], ["answer 1", "answer 2"]);
        assert_eq!([get("de").cache(), get("en").cache()], ["hit", "hit"]);
        edge.curl(SHOP, "/", &["-X", "PUT", "-d", "new"]);
        assert_eq!([get("de").body, get("en").body], ["answer 4", "answer 5"]);
        assert_eq!(origin.asked("/").len(), 5);
    });
}

#[test]
fn what_is_too_long_passes_through_and_so_do_its_ranges() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = Origin::start(|asked| {
        let ranged = asked.header("range") == "bytes=0-3";
        let (status, body) =
            if ranged { (206, "0123".into()) } else { (200, "0123456789".repeat(1_000)) };
        (status, "cache-control: max-age=60".to_owned(), body)
    });
    let site = workshop.site(SHOP, origin.address) + "body_max = \"1KiB\"\n";
    let edge = workshop.start("", &site);
    for _ in 0..2 {
        assert_eq!(edge.curl(SHOP, "/long", &[]).body.len(), 10_000);
    }
    let part = edge.curl(SHOP, "/long", &["-r", "0-3"]);
    assert_eq!((part.status, &*part.body, part.cache()), (206, "0123", "fwd=bypass"));
    assert_eq!(origin.asked("/long").len(), 3);
}

#[test]
fn what_turns_out_too_long_passes_through_whole() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    thread::spawn(move || {
        for client in socket.incoming().flatten() {
            let mut lines = BufReader::new(&client).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            count.fetch_add(1, SeqCst);
            let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nconnection: close\r\n";
            let chunks = "3e8\r\n".to_owned() + &"x".repeat(1000) + "\r\n";
            let chunks = chunks.repeat(10) + "0\r\n\r\n";
            write!(&client, "{head}transfer-encoding: chunked\r\n\r\n{chunks}").expect("sent");
        }
    });
    let edge = workshop.start("", &(workshop.site(SHOP, address) + "body_max = \"1KiB\"\n"));
    for asked in 1..=2 {
        assert_eq!(edge.curl(SHOP, "/", &[]).body.len(), 10_000);
        assert_eq!(seen.load(SeqCst), asked);
    }
}

#[test]
fn a_client_that_wants_only_stored_answers_causes_no_request() {
    let answer = |_: &str, _: u64, _: &Asked| (200, "cache-control: max-age=60".to_owned());
    with_edge("", "", answer, |edge, origin| {
        let only = ["-H", "Cache-Control: only-if-cached"];
        assert_eq!(edge.curl(SHOP, "/", &only).status, 504);
        assert!(origin.asked("/").is_empty());
        edge.curl(SHOP, "/", &[]);
        assert_eq!(edge.curl(SHOP, "/", &only).cache(), "hit");
    });
}

#[test]
fn a_database_keeps_what_memory_cannot() {
    let mut kept_in = Database::start();
    let database = format!("[edge.content]\ndatabase = \"redis://{}\"\n", kept_in.address());
    let answer = |_: &str, _: u64, _: &Asked| (200, "cache-control: max-age=600".to_owned());
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = Origin::start(move |asked| {
        let (status, lines) = answer(&asked.path, 0, asked);
        (status, lines, "kept".to_owned())
    });
    // Another edge, with empty memory.
    let told = || {
        let edge = workshop.start(&database, &workshop.site(SHOP, origin.address));
        let answer = edge.curl(SHOP, "/", &[]);
        assert_eq!(answer.body, "kept");
        answer.cache().to_owned()
    };
    let miss = "fwd=miss; stored";
    assert_eq!(told(), miss);
    // After a timeout for its database an edge requests from the origin, and a busy machine may be
    // slow.
    until("the database answers", || told() == "hit");
    until("the changed resource is dropped there, too", || {
        let edge = workshop.start(&database, &workshop.site(SHOP, origin.address));
        edge.curl(SHOP, "/", &["-X", "PUT"]);
        told() == miss
    });
    redis::cmd("FLUSHALL").exec(&mut kept_in.connection()).expect("it answers");
    assert_eq!(told(), miss, "nothing is kept");
    kept_in.bring_down();
    assert_eq!(told(), miss, "no database");
}
