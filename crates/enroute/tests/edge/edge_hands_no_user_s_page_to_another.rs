//! Requests that wait for the same fetch: each gets what could be served to it from storage at that
//! moment; otherwise the edge sends its own request to the origin.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use crate::support::{
    edge::{Answer, Asked, Edge, Origin, with_edge},
    process::until,
    tls::Tls,
};

const SHOP: &str = "shop.example";

/// A request that begins a fetch, and one that arrives before the origin responds: returns both
/// responses, and the number of requests to the origin.
fn two_at_once(
    answer: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static,
    lines: [&'static str; 2],
    check: impl FnOnce([Answer; 2], &Edge<'_>, &Origin),
) {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, asked: &Asked| {
        until("both clients", || gate.load(SeqCst));
        answer(asked)
    };
    with_edge("", "", answer, |edge, origin| {
        let ask = |lines: &str| {
            let host = format!("Host: {SHOP}\n{lines}");
            Tls::connect(edge.address, SHOP, "http/1.1").ask("GET", "/", &host)
        };
        let told = thread::scope(|scope| {
            let first = scope.spawn(move || ask(lines[0]));
            until("the fetch", || origin.asked("/").len() == 1);
            let second = scope.spawn(move || ask(lines[1]));
            // The second request waits for the first, or was sent to the origin itself.
            until("the second", || edge.counted("coalesced") == 1 || origin.asked("/").len() == 2);
            go.store(true, SeqCst);
            [first, second].map(|client| client.join().expect("no panic"))
        });
        check(told, edge, origin);
    });
}

/// The page of the requesting user; its `ETag` contains the user.
fn own_page(headers: &'static str) -> impl Fn(&Asked) -> (u16, String) + Send + Sync {
    move |asked| {
        let user = asked.header("cookie");
        let tag = format!("\"{user}\"");
        let status = if asked.header("if-none-match") == tag { 304 } else { 200 };
        (status, format!("{headers}etag: {tag}\nx-user: {user}"))
    }
}

#[test]
fn what_is_stored_only_to_be_validated_is_not_shared() {
    for headers in ["", "cache-control: no-cache\n", "cache-control: max-age=0\n"] {
        let cookies = ["Cookie: anna", "Cookie: bert"];
        two_at_once(own_page(headers), cookies, |[anna, bert], edge, _| {
            assert_eq!(anna.header("x-user"), "anna", "{headers:?}: {anna:?}");
            assert_eq!(bert.header("x-user"), "bert", "{headers:?}: {bert:?}");
            // A later client does not get it either.
            let mut later = Tls::connect(edge.address, SHOP, "http/1.1");
            let carl = later.ask("GET", "/", &format!("Host: {SHOP}\nCookie: carl"));
            assert_eq!(carl.header("x-user"), "carl", "{headers:?}: {carl:?}");
        });
    }
}

/// The origin answers 304 to the second client's request, which has the validator of the first
/// response.
#[test]
fn what_the_origin_confirms_for_the_second_is_sent_from_storage() {
    let answer = |asked: &Asked| match asked.header("if-none-match") {
        "\"a\"" => (304, "x-confirmed: yes\nset-cookie: session=1".to_owned()),
        _ => (200, "etag: \"a\"".to_owned()),
    };
    let cookies = ["Cookie: anna", "Cookie: bert"];
    two_at_once(answer, cookies, |[anna, bert], _, origin| {
        assert_eq!((&*anna.body, &*bert.body), ("answer 1", "answer 1"), "{bert:?}");
        assert_eq!(bert.cache(), "fwd=miss; fwd-status=304; stored", "{bert:?}");
        // A cookie in the 304 is for the client whose request it answers.
        assert_eq!((anna.header("set-cookie"), bert.header("set-cookie")), ("", "session=1"));
        let asked = origin.asked("/");
        assert_eq!((asked.len(), asked[1].header("cookie")), (2, "bert"));
    });
}

#[test]
fn an_answer_that_is_one_client_s_is_not_the_other_s() {
    for lines in [
        "cache-control: max-age=60\nset-cookie: a=b",
        "cache-control: private, max-age=60",
        "cache-control: max-age=60, private=\"x-user\"",
        "cache-control: no-store",
        "cache-control: max-age=60; private",
        "cache-control: private, \u{e9}",
        "cache-control: max-age=60, \u{e9}",
        "cache-control: max-age=60\nvary: *",
        "cache-control: max-age=60\nvary: cookie",
        "404\ncache-control: max-age=60\nset-cookie: a=b",
        "503\nset-cookie: a=b",
        "302\nlocation: /anna\nset-cookie: a=b",
    ] {
        let (status, lines) = match lines.split_once('\n') {
            Some((status, rest)) if status.parse::<u16>().is_ok() => {
                (status.parse().expect("a status"), rest)
            }
            _ => (200, lines),
        };
        let answer =
            move |asked: &Asked| (status, format!("{lines}\nx-user: {}", asked.header("cookie")));
        let cookies = ["Cookie: anna", "Cookie: bert"];
        two_at_once(answer, cookies, |[anna, bert], _, _| {
            assert_eq!(
                (anna.header("x-user"), bert.header("x-user")),
                ("anna", "bert"),
                "{lines:?}"
            );
        });
    }
}

#[test]
fn what_is_fresh_for_the_second_is_shared_and_nothing_else() {
    // Header of the origin, request of the second client, whether it gets the first client's
    // response.
    let table: &[(&str, &str, bool)] = &[
        ("cache-control: max-age=60", "", true),
        ("cache-control: max-age=60", "Cookie: bert", true),
        ("cache-control: max-age=60", "Cache-Control: max-age=60", true),
        ("cache-control: max-age=60", "Cache-Control: no-cache", false),
        ("cache-control: max-age=60", "Pragma: no-cache", false),
        ("cache-control: max-age=60\nage: 30", "Cache-Control: max-age=10", false),
        ("cache-control: max-age=60\nage: 30", "Cache-Control: min-fresh=40", false),
        ("cache-control: max-age=60\nage: 30", "Cache-Control: min-fresh=20", true),
        ("cache-control: max-age=60\nvary: accept", "Accept: a/b", false),
        ("cache-control: max-age=60\nage: 70", "", false),
        ("cache-control: max-age=60, stale-while-revalidate=60\nage: 70", "", true),
        (
            "cache-control: max-age=60, stale-while-revalidate=60\nage: 70",
            "Pragma: no-cache",
            false,
        ),
    ];
    for (lines, wants, shared) in table {
        let answer = |_: &Asked| (200, (*lines).to_owned());
        two_at_once(answer, ["", wants], |[first, second], _, _| {
            assert_eq!(first.body, "answer 1");
            assert_eq!(second.body == "answer 1", *shared, "{lines:?}, {wants:?}: {second:?}");
        });
    }
}
