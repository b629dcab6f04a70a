//! An origin answers so many requests of an edge at once, whatever clients ask for; others wait for their turn,
//! and are told where none comes.
#![cfg(feature = "edge")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use support::{
    edge::{Edge, Origin, until},
    process::at_once,
    workshop::workshop,
};

const SHOP: &str = "shop.example";
const TURNS: usize = 4;
const CLIENTS: usize = 16;

/// Lets `test` see an edge whose origin answers when it may, and how many it was asked for at once.
fn with_edge(timeout: &str, test: impl FnOnce(&Edge<'_>, &AtomicBool, &AtomicUsize)) {
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
    let limits = format!(
        "[edge.limits]\norigin_connections_max = {TURNS}\norigin_timeout = \"{timeout}\"\n"
    );
    let edge = workshop.start(&limits, &workshop.site(SHOP, origin.address));
    assert_eq!(edge.curl(SHOP, "/stored", &[]).status, 200);
    test(&edge, &shared.0, &shared.2);
}

#[test]
fn others_wait_for_their_turn() {
    with_edge("60s", |edge, may_answer, most| {
        let answers = thread::scope(|scope| {
            let asking = scope.spawn(|| {
                at_once(CLIENTS, |number| edge.curl(SHOP, &format!("/{number}"), &[]).status)
            });
            until("all have asked", || edge.counted("requests") == CLIENTS as u64 + 1);
            until("as many as may are asked", || most.load(SeqCst) == TURNS);
            // What is stored needs no turn.
            assert_eq!(edge.curl(SHOP, "/stored", &[]).cache(), "hit");
            may_answer.store(true, SeqCst);
            asking.join().expect("it ends")
        });
        assert_eq!(answers, [200; CLIENTS]);
        assert_eq!(most.load(SeqCst), TURNS);
    });
}

#[test]
fn where_none_comes_they_are_told() {
    with_edge("2s", |edge, may_answer, _| {
        let mut answers =
            at_once(CLIENTS, |number| edge.curl(SHOP, &format!("/{number}"), &[]).status);
        answers.sort_unstable();
        assert!(answers.ends_with(&[504; 1]) && answers.starts_with(&[503; 1]), "{answers:?}");
        assert!(answers.iter().all(|status| [503, 504].contains(status)), "{answers:?}");
        let line = edge.enroute.stderr_line("origin_connections_max");
        assert!(line.contains("has been answering 4 requests"), "{line}");
        may_answer.store(true, SeqCst);
        until("it is served again", || edge.curl(SHOP, "/again", &[]).status == 200);
    });
}
