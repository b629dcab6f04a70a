//! No request of a client prevents a target from being stored and served from storage.
use crate::support::{
    edge::{Asked, Edge, with_edge},
    process::until,
    tls::Tls,
};

const SHOP: &str = "shop.example";

/// An origin that sets a cookie only for clients that request one.
fn page(_: &str, _: u64, asked: &Asked) -> (u16, String) {
    let lines = "cache-control: max-age=600".to_owned();
    match asked.header("x-wants") {
        "cookie" => (200, lines + "\nset-cookie: a=b"),
        "private" => (200, "cache-control: private".to_owned()),
        "error" => (500, String::new()),
        "refusal" => (400, String::new()),
        _ => (200, lines),
    }
}

fn ask(edge: &Edge<'_>, lines: &str) -> crate::support::edge::Answer {
    let lines = format!("Host: {SHOP}\n{lines}");
    Tls::connect(edge.address, SHOP, "http/1.1").ask("GET", "/", &lines)
}

#[test]
fn a_forced_reload_that_sets_a_cookie_leaves_it_stored() {
    with_edge("", "", page, |edge, _| {
        assert_eq!(ask(edge, "").cache(), "fwd=miss; stored");
        for wants in ["cookie", "private", "error", "refusal"] {
            for reload in ["Cache-Control: no-cache", "Pragma: no-cache", "Cache-Control: \u{e9}"] {
                for _ in 0..5 {
                    let own = ask(edge, &format!("{reload}\nX-Wants: {wants}"));
                    assert!(own.cache().starts_with("fwd="), "{own:?}");
                }
                assert_eq!(ask(edge, "").cache(), "hit", "after {reload}, {wants}");
            }
        }
    });
}

#[test]
fn what_was_not_to_be_stored_is_stored_as_soon_as_it_may_be() {
    with_edge("", "", page, |edge, origin| {
        for wants in ["cookie", "private", "error", "refusal"] {
            for _ in 0..5 {
                assert!(ask(edge, &format!("X-Wants: {wants}")).cache().starts_with("fwd="));
            }
        }
        assert_eq!(origin.asked("/").len(), 20);
        assert_eq!(ask(edge, "").cache(), "fwd=miss; stored");
        assert_eq!(ask(edge, "").cache(), "hit");
    });
}

/// A background refresh brings another client's cookie.
#[test]
fn a_refresh_that_sets_a_cookie_ends_no_stale_answers() {
    let answer = |_: &str, number: u64, asked: &Asked| {
        let lines = "cache-control: max-age=10, stale-while-revalidate=600\nage: 10".to_owned();
        let cookie =
            if number > 1 && asked.header("x-wants") == "cookie" { "set-cookie: a=b" } else { "" };
        (200, format!("{lines}\n{cookie}"))
    };
    with_edge("", "", answer, |edge, origin| {
        ask(edge, "");
        let stale = "hit; detail=stale-while-revalidate";
        for count in 2..6 {
            assert_eq!(ask(edge, "X-Wants: cookie").cache(), stale);
            until("the refresh", || origin.asked("/").len() >= count);
        }
        assert_eq!(ask(edge, "").cache(), stale);
    });
}
