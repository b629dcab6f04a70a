//! The rules of an HTTP cache, seen from outside: who asks the origin when, and who is told what.
#![cfg(feature = "edge")]

mod support;

use std::{
    io::{BufRead, BufReader, Write},
    iter,
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use support::attacks;
use support::edge::{Edge, Origin, until};
use support::workshop::workshop;

const SHOP: &str = "shop.example";

/// An edge before an origin that counts its answers and says what `answer` says.
fn with_edge(
    options: &str,
    site: &str,
    answer: impl Fn(&str, u64, &support::edge::Asked) -> (u16, String) + Send + Sync + 'static,
    test: impl FnOnce(&Edge<'_>, &Origin),
) {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let count = AtomicU64::new(0);
    let origin = Origin::start(move |asked| {
        let number = count.fetch_add(1, SeqCst) + 1;
        let (status, lines) = answer(&asked.path, number, asked);
        (status, lines, format!("answer {number}"))
    });
    let edge = workshop.start(options, &(workshop.site(SHOP, origin.address) + site));
    test(&edge, &origin);
}

#[test]
fn each_directive_does_what_it_says() {
    // What the origin says; what the second request, with these options, is told.
    let table: &[(&str, &[&str], &str)] = &[
        ("cache-control: max-age=60", &[], "hit"),
        ("cache-control: s-maxage=60, max-age=0", &[], "hit"),
        ("cache-control: public, max-age=60", &["-H", "Authorization: Basic eA=="], "hit"),
        ("cache-control: max-age=60\nset-cookie: a=b", &[], "fwd=bypass"),
        ("cache-control: private, max-age=60", &[], "fwd=bypass"),
        ("cache-control: no-store", &[], "fwd=bypass"),
        ("cache-control: max-age=60\nvary: *", &[], "fwd=bypass"),
        ("x-nothing: said", &[], "fwd=bypass"),
        ("cache-control: max-age=60", &["-H", "Cache-Control: no-cache"], "fwd=stale; stored"),
        ("cache-control: no-cache\netag: \"a\"", &[], "fwd=stale; stored"),
        ("cache-control: max-age=60\nvary: accept", &["-H", "Accept: a/b"], "fwd=miss; stored"),
        ("cache-control: max-age=60\nvary: x-other", &["-H", "Accept: a/b"], "hit"),
    ];
    let lines: Vec<String> = table.iter().map(|(lines, ..)| (*lines).to_owned()).collect();
    let answer = move |path: &str, _: u64, _: &support::edge::Asked| {
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
    let answer = |_: &str, _: u64, asked: &support::edge::Asked| match asked.header("if-none-match")
    {
        "\"v1\"" => (304, "cache-control: max-age=60".to_owned()),
        _ => (200, "cache-control: max-age=10\nage: 10\netag: \"v1\"".to_owned()),
    };
    with_edge("", "", answer, |edge, origin| {
        assert_eq!(edge.curl(SHOP, "/", &[]).body, "answer 1");
        let second = edge.curl(SHOP, "/", &[]);
        assert_eq!(second.cache(), "fwd=stale; fwd-status=304; stored", "{second:?}");
        assert_eq!(second.body, "answer 1");
        // The answer to the validator made it fresh.
        assert_eq!(edge.curl(SHOP, "/", &[]).cache(), "hit");
        assert_eq!(origin.asked("/").len(), 2);
    });
}

#[test]
fn a_304_can_end_the_sharing() {
    let answer = |_: &str, _: u64, asked: &support::edge::Asked| match asked.header("if-none-match")
    {
        "\"v1\"" => (304, "cache-control: private".to_owned()),
        _ => (200, "cache-control: max-age=10\nage: 10\netag: \"v1\"".to_owned()),
    };
    with_edge("", "", answer, |edge, _| {
        let told = [(); 3].map(|()| edge.curl(SHOP, "/", &[]).cache().to_owned());
        assert_eq!(told, ["fwd=miss; stored", "fwd=bypass", "fwd=bypass"]);
    });
}

#[test]
fn what_is_for_one_client_is_asked_as_it_came() {
    let answer = |_: &str, _: u64, _: &support::edge::Asked| (200, "x-nothing: said".to_owned());
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

#[test]
fn stale_while_revalidate_answers_at_once_and_refreshes_behind() {
    let answer = |_: &str, number: u64, _: &support::edge::Asked| {
        let age = if number == 1 { "age: 10" } else { "age: 0" };
        (200, format!("cache-control: max-age=10, stale-while-revalidate=600\n{age}"))
    };
    with_edge("", "", answer, |edge, _| {
        assert_eq!(edge.curl(SHOP, "/", &[]).body, "answer 1");
        let stale = edge.curl(SHOP, "/", &[]);
        assert_eq!(stale.body, "answer 1");
        assert_eq!(stale.cache(), "hit; detail=stale-while-revalidate");
        until("the refreshed answer", || edge.curl(SHOP, "/", &[]).body != "answer 1");
    });
}

#[test]
fn stale_if_error_covers_an_origin_that_fails() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let answer = move |path: &str, _: u64, _: &support::edge::Asked| {
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
    let answer = |path: &str, _: u64, _: &support::edge::Asked| {
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
    // Nobody ever listened.
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let edge = workshop.start("", &workshop.site(SHOP, support::process::free_address()));
    assert_eq!(edge.curl(SHOP, "/", &[]).status, 502);
}

/// What curl does by itself: validators of both kinds, and a download that goes on where it ended.
#[test]
fn a_client_with_an_old_or_a_partial_copy_gets_what_it_needs() {
    let answer = |_: &str, _: u64, _: &support::edge::Asked| {
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
fn many_who_want_the_same_ask_once() {
    const CLIENTS: usize = 6;
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, _: &support::edge::Asked| {
        until("the others", || gate.load(SeqCst));
        (200, "cache-control: max-age=60".to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| scope.spawn(|| edge.curl(SHOP, "/", &[]))).collect();
            until("all waiting", || edge.counted("coalesced") == CLIENTS as u64 - 1);
            go.store(true, SeqCst);
            for client in clients {
                let answer = client.join().expect("no panic");
                assert_eq!((answer.status, &*answer.body), (200, "answer 1"), "{answer:?}");
            }
        });
        assert_eq!(origin.asked("/").len(), 1);
    });
}

/// Nobody knows yet that the target has variants.
#[test]
fn who_waited_for_another_variant_asks_for_its_own() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, asked: &support::edge::Asked| {
        until("the other", || gate.load(SeqCst));
        let language = asked.header("accept-language");
        (
            200,
            format!(
                "cache-control: max-age=60\nvary: accept-language\ncontent-language: {language}"
            ),
        )
    };
    with_edge("", "", answer, |edge, origin| {
        thread::scope(|scope| {
            let clients = ["de", "en"].map(|language| {
                let header = format!("Accept-Language: {language}");
                (language, scope.spawn(move || edge.curl(SHOP, "/", &["-H", &header])))
            });
            until("both waiting", || edge.counted("coalesced") == 1);
            go.store(true, SeqCst);
            for (language, client) in clients {
                let answer = client.join().expect("no panic");
                assert_eq!(answer.header("content-language"), language, "{answer:?}");
            }
        });
        assert_eq!(origin.asked("/").len(), 2);
    });
}

#[test]
fn an_origin_that_takes_too_long_is_a_504() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, _: &support::edge::Asked| {
        until("everybody was told", || gate.load(SeqCst));
        (200, "cache-control: max-age=60".to_owned())
    };
    with_edge("[edge.limits]\norigin_timeout = \"1s\"", "", answer, |edge, _| {
        for method in ["GET", "POST"] {
            assert_eq!(edge.curl(SHOP, "/", &["-X", method]).status, 504, "{method}");
        }
        go.store(true, SeqCst);
    });
}

/// What is not stored because of one client's credentials is for the others as it was.
#[test]
fn one_client_s_own_answer_is_not_everybody_s_mark() {
    let answer = |_: &str, _: u64, asked: &support::edge::Asked| match asked.header("authorization")
    {
        "" => (
            200,
            "cache-control: public, max-age=10, stale-while-revalidate=600\nage: 10".to_owned(),
        ),
        _ => (200, "cache-control: private".to_owned()),
    };
    with_edge("", "", answer, |edge, origin| {
        edge.curl(SHOP, "/", &[]);
        let stale = "hit; detail=stale-while-revalidate";
        assert_eq!(edge.curl(SHOP, "/", &["-H", "Authorization: Basic eA=="]).cache(), stale);
        // Once another asks behind it, the answer to that has come.
        until("another fetch", || {
            let answer = edge.curl(SHOP, "/", &[]);
            assert!(answer.cache().starts_with("hit"), "{answer:?}");
            origin.asked("/").len() > 2
        });
    });
}

#[test]
fn a_fetch_that_began_before_a_change_fills_nothing() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, number: u64, asked: &support::edge::Asked| {
        if number == 1 && asked.method == "GET" {
            until("the change", || gate.load(SeqCst));
        }
        (200, "cache-control: max-age=60".to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        thread::scope(|scope| {
            let early = scope.spawn(|| edge.curl(SHOP, "/", &[]));
            until("the fetch", || origin.asked("/").len() == 1);
            assert_eq!(edge.curl(SHOP, "/", &["-X", "DELETE"]).status, 200);
            // Nor does who comes after the change wait for it.
            let later = edge.curl(SHOP, "/", &[]);
            assert_eq!((&*later.body, later.cache()), ("answer 3", "fwd=miss; stored"));
            go.store(true, SeqCst);
            assert_eq!(early.join().expect("no panic").body, "answer 1");
        });
        let after = edge.curl(SHOP, "/", &[]);
        assert_eq!((&*after.body, after.cache()), ("answer 3", "hit"));
    });
}

#[test]
fn a_change_forgets_every_variant() {
    let answer = |_: &str, _: u64, _: &support::edge::Asked| {
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
fn what_broke_off_is_neither_stored_nor_taken_for_whole() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        // An answer each, then the connection ends: with a length, in chunks, and whole.
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

#[test]
fn who_wants_only_what_is_stored_makes_nobody_ask() {
    let answer =
        |_: &str, _: u64, _: &support::edge::Asked| (200, "cache-control: max-age=60".to_owned());
    with_edge("", "", answer, |edge, origin| {
        let only = ["-H", "Cache-Control: only-if-cached"];
        assert_eq!(edge.curl(SHOP, "/", &only).status, 504);
        assert!(origin.asked("/").is_empty());
        edge.curl(SHOP, "/", &[]);
        assert_eq!(edge.curl(SHOP, "/", &only).cache(), "hit");
    });
}

#[test]
fn a_body_that_is_too_long_does_not_reach_the_origin_whole() {
    let answer = |_: &str, _: u64, _: &support::edge::Asked| (200, String::new());
    with_edge("[edge.limits]\nrequest_bytes_max = \"1KiB\"", "", answer, |edge, origin| {
        for protocol in ["--http1.1", "--http2"] {
            let post = |body: &str, options: &[&str]| {
                edge.try_curl(SHOP, "/", &[&[protocol, "-d", body], options].concat())
            };
            assert_eq!(post(&"x".repeat(1024), &[]).expect("an answer").status, 200);
            // A client in the middle of its sending hears why it is refused.
            for length in [1025, 100 << 10] {
                assert_eq!(post(&"x".repeat(length), &[]).expect("an answer").status, 413);
            }
            // Who asks first is not told to go on.
            let asks = ["-H", "Expect: 100-continue"];
            assert_eq!(post(&"x".repeat(1025), &asks).expect("an answer").status, 413);
            assert!(post(&"x".repeat(1024), &asks).is_ok());
            // Whose length nobody said beforehand is found out on the way.
            let unsaid = ["-H", "Transfer-Encoding: chunked"];
            let answer = post(&"x".repeat(1025), if protocol == "--http2" { &[] } else { &unsaid });
            assert!(!answer.is_ok_and(|answer| answer.status == 200), "{protocol}");
        }
        let whole = origin.asked("/");
        assert!(whole.iter().all(|asked| asked.body.len() <= 1024), "{whole:?}");
        // That was between the client and the edge.
        assert!(whole.iter().all(|asked| asked.header("expect").is_empty()), "{whole:?}");
    });
}

/// It is heard for a while, not for ever.
#[test]
fn who_is_refused_and_never_ends_is_cut_off() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let limits = "[edge.limits]\nrequest_bytes_max = \"1KiB\"\nidle_timeout = \"600s\"";
    let origin = support::process::free_address();
    let edge = workshop.start(limits, &workshop.site(SHOP, origin));
    let options = format!("-connect {} -servername {SHOP}", edge.address);
    let head = format!("POST / HTTP/1.1\r\nHost: {SHOP}\r\nContent-Length: 9000000\r\n\r\n");
    let send = |body: &[u8]| {
        attacks::send(&workshop.path(""), &options, &[head.as_bytes(), body].concat())
    };
    let answer = send(b"and no more").expect("the connection stays open");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(send(&vec![b'x'; 9_000_000]).is_some(), "all of it is heard");
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, _: &support::edge::Asked| {
        until("the end is asked for", || gate.load(SeqCst));
        (200, "cache-control: no-store".to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        let protocols = ["--http1.1", "--http2"];
        thread::scope(|scope| {
            let clients = protocols.map(|protocol| {
                scope.spawn(move || edge.curl(SHOP, &format!("/{protocol}"), &[protocol]))
            });
            let asks = |protocol: &&str| origin.asked(&format!("/{protocol}")).len() == 1;
            until("both are asked", || protocols.iter().all(asks));
            edge.enroute.process().signal("TERM");
            until("nobody else is let in", || TcpStream::connect(edge.address).is_err());
            go.store(true, SeqCst);
            for client in clients {
                let answer = client.join().expect("no panic");
                assert_eq!(answer.status, 200, "{answer:?}");
                assert!(answer.body.starts_with("answer"), "{answer:?}");
            }
        });
        until("it ends", || edge.enroute.process().has_ended());
    });
}

#[test]
fn a_database_keeps_what_memory_cannot() {
    let mut kept_in = support::database::Database::start();
    let database = format!("[edge.content]\ndatabase = \"redis://{}\"\n", kept_in.address());
    let answer =
        |_: &str, _: u64, _: &support::edge::Asked| (200, "cache-control: max-age=600".to_owned());
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = Origin::start(move |asked| {
        let (status, lines) = answer(&asked.path, 0, asked);
        (status, lines, "kept".to_owned())
    });
    // Another edge, with nothing in memory.
    let told = || {
        let edge = workshop.start(&database, &workshop.site(SHOP, origin.address));
        let answer = edge.curl(SHOP, "/", &[]);
        assert_eq!(answer.body, "kept");
        answer.cache().to_owned()
    };
    let miss = "fwd=miss; stored";
    assert_eq!(told(), miss);
    // An edge that waits for its database for too long asks the origin, and a busy machine may be slow.
    until("the database answers", || told() == "hit");
    until("what was changed is forgotten there, too", || {
        let edge = workshop.start(&database, &workshop.site(SHOP, origin.address));
        edge.curl(SHOP, "/", &["-X", "PUT"]);
        told() == miss
    });
    redis::cmd("FLUSHALL").exec(&mut kept_in.connection()).expect("it answers");
    assert_eq!(told(), miss, "nothing is kept");
    kept_in.bring_down();
    assert_eq!(told(), miss, "no database");
}
