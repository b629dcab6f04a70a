//! A request during a fetch waits for its response, if the response may be used for it too.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use crate::support::edge::{Asked, with_edge};
use crate::support::process::until;

const SHOP: &str = "shop.example";

#[test]
fn many_clients_that_want_the_same_cause_one_request() {
    const CLIENTS: usize = 6;
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, _: &Asked| {
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

/// The edge does not know yet that the target has variants.
#[test]
fn a_request_that_waited_for_another_variant_sends_its_own() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, asked: &Asked| {
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
fn a_fetch_that_began_before_a_change_fills_nothing() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, number: u64, asked: &Asked| {
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
            // A request after the change does not wait for that fetch either.
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
fn a_fetch_that_began_before_a_flush_fills_nothing() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, number: u64, _: &Asked| {
        if number == 1 {
            until("the flush", || gate.load(SeqCst));
        }
        (200, "cache-control: max-age=600".to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        thread::scope(|scope| {
            let early = scope.spawn(|| edge.curl(SHOP, "/", &[]));
            until("the fetch", || origin.asked("/").len() == 1);
            edge.flush();
            // A request after the flush does not wait for that fetch either.
            let later = edge.curl(SHOP, "/", &[]);
            assert_eq!((&*later.body, later.cache()), ("answer 2", "fwd=miss; stored"));
            go.store(true, SeqCst);
            assert_eq!(early.join().expect("no panic").body, "answer 1");
        });
        let after = edge.curl(SHOP, "/", &[]);
        assert_eq!((&*after.body, after.cache()), ("answer 2", "hit"));
    });
}

#[test]
fn stale_while_revalidate_answers_at_once_and_refreshes_behind() {
    let answer = |_: &str, number: u64, _: &Asked| {
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

/// A response that is not stored because of one client's credentials has no effect on other
/// clients.
#[test]
fn a_private_answer_for_one_client_marks_nothing_for_others() {
    let answer = |_: &str, _: u64, asked: &Asked| match asked.header("authorization") {
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
        // After another request was sent, the response to the first has arrived.
        until("another fetch", || {
            let answer = edge.curl(SHOP, "/", &[]);
            assert!(answer.cache().starts_with("hit"), "{answer:?}");
            origin.asked("/").len() > 2
        });
    });
}
