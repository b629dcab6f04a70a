//! A write that bypasses the cache is seen, because the origin's change stream reports it; while
//! the stream is down, nothing is cached.

use bson::{Document, doc};
use mongodb::sync::Collection;

use crate::support::{
    enroute::{Cache, Enroute},
    origins::Mongo,
    process::until,
    replica::{Kind, Replica},
    secured::{certificates, tls},
};

fn users(client: &mongodb::sync::Client) -> Collection<Document> {
    client.database("shop").collection("users")
}

fn value(users: &Collection<Document>) -> Option<i32> {
    let found = users.find_one(doc! { "_id": "k" }).run().expect("answered");
    found.map(|found| found.get_i32("v").expect("a number"))
}

fn write(users: &Collection<Document>, value: i32) {
    let replacement = doc! { "v": value };
    users.replace_one(doc! { "_id": "k" }, replacement).upsert(true).run().expect("written");
}

/// Repeats a read until it is served from storage.
fn becomes_a_hit(users: &Collection<Document>, origin: &Replica) {
    until("a hit", || {
        let before = origin.reads();
        value(users);
        origin.reads() == before
    });
}

fn cache(origin: &Replica) -> Cache {
    Cache::start_all(&[("mongodb", origin.address(), "feed = {}")], "")
}

/// An origin and its cache, and clients of the cache and of the origin: the cache has a value that
/// was replaced since, and the event that reports this is held back.
fn with_a_held_write() -> (Replica, Cache, Collection<Document>, Collection<Document>) {
    let origin = Replica::start(Kind::Primary);
    let cache = cache(&origin);
    let through = users(&Replica::client(cache.address()));
    let around = users(&Replica::client(origin.address()));
    write(&around, 1);
    until("cached", || value(&through) == Some(1));
    becomes_a_hit(&through, &origin);
    origin.hold_stream();
    write(&around, 2);
    (origin, cache, through, around)
}

#[test]
fn writes_drops_and_a_cut_are_seen() {
    let origin = Replica::start(Kind::Primary);
    let cache = cache(&origin);
    let (through, around) = (Replica::client(cache.address()), Replica::client(origin.address()));
    let (through, around) = (users(&through), users(&around));
    for round in 0..50 {
        write(&around, round);
        until("the new value is read", || value(&through) == Some(round));
        becomes_a_hit(&through, &origin);
    }
    around.delete_one(doc! { "_id": "k" }).run().expect("deleted");
    until("the deletion is seen", || value(&through).is_none());
    for (operation, place) in [
        ("drop", doc! { "db": "shop", "coll": "users" }),
        ("dropDatabase", doc! { "db": "shop" }),
        ("frobnicate", doc! {}),
    ] {
        becomes_a_hit(&through, &origin);
        let before = origin.reads();
        origin.report(operation, place);
        until(operation, || {
            value(&through);
            origin.reads() > before
        });
    }

    // The feed's connection is cut: a write during the outage must be seen too.
    write(&around, 1_000);
    until("cached", || value(&through) == Some(1_000));
    becomes_a_hit(&through, &origin);
    origin.cut_streams();
    write(&around, 1_001);
    until("the write during the loss is seen", || value(&through) == Some(1_001));
    becomes_a_hit(&through, &origin);
    let opened = origin.opened();
    assert!(opened.len() >= 2, "{opened:?}");
    assert!(!opened[0].contains_key("resumeAfter") && opened[1].contains_key("resumeAfter"));
    assert!(opened.iter().all(|stage| stage.get_bool("allChangesForCluster").unwrap()));
    assert!(cache.terminate().status.success());
}

#[test]
fn a_stream_that_falls_behind_ends_the_hits_until_it_has_caught_up() {
    let (origin, cache, through, around) = with_a_held_write();
    // The write is not reported, but is seen after the bound at the latest.
    until("the write is seen", || value(&through) == Some(2));
    cache.log_line("feed suspended");
    let before = origin.reads();
    assert_eq!((value(&through), value(&through)), (Some(2), Some(2)));
    assert_eq!(origin.reads(), before + 2, "nothing is cached");
    write(&around, 3);
    assert_eq!(value(&through), Some(3));
    origin.release_stream();
    becomes_a_hit(&through, &origin);
    assert_eq!(value(&through), Some(3));
}

#[test]
fn a_lost_history_drops_what_was_stored() {
    let (origin, cache, through, _) = with_a_held_write();
    origin.forget_history();
    origin.release_stream();
    origin.cut_streams();
    until("the write that no event reports is seen", || value(&through) == Some(2));
    becomes_a_hit(&through, &origin);
    assert!(cache.log_line("feed lost").contains("nothing is cached"));
}

#[test]
fn a_feed_over_tls_reports_as_well() {
    let Some(workshop) = certificates() else { return };
    let origin = Replica::start(Kind::Primary);
    // The origin with TLS is another cache, which stores nothing.
    let options = [&tls(&workshop), "exclude = [\"*\"]\n"].concat();
    let inner = Cache::start_all(&[("mongodb", origin.address(), &options)], "");
    let text = format!(
        "[[listener]]\nlisten = \"mongodb://127.0.0.1:0\"\nfeed = {{}}\n\
         origin = \"mongodb://localhost:{}/?tls=true&tlsCAFile={}\"\n",
        inner.address().port(),
        workshop.path("authority.pem").display()
    );
    let cache = Enroute::start_with_config(&["cache"], &text);
    let through = Replica::client(cache.listen_address("mongodb"));
    let around = Replica::client(origin.address());
    let (through, around) = (users(&through), users(&around));
    for round in 0..10 {
        write(&around, round);
        until("the new value is read", || value(&through) == Some(round));
        becomes_a_hit(&through, &origin);
    }
    assert_eq!(inner.hits() as u64, 0);
    origin.cut_streams();
    write(&around, 10);
    until("the write during the loss is seen", || value(&through) == Some(10));
}

#[test]
fn an_origin_that_cannot_report_is_told_of_and_nothing_is_cached() {
    for (kind, why) in [
        (Kind::Standalone, "standalone server; remove `feed`"),
        (Kind::Forbidding, "not authorized on admin"),
    ] {
        let origin = Replica::start(kind);
        let cache = cache(&origin);
        let line = cache.log_line("feed lost, nothing is cached");
        assert!(line.contains(why), "{line}");
        is_never_a_hit(&origin.address(), &cache);
    }
}

/// mongo-java-server has neither `hello` nor a stream of the whole deployment, with or without its
/// oplog; its streams of one collection have no resume tokens, and its events name no collection.
#[test]
fn mongo_java_server_gets_no_feed() {
    let Some(origin) = Mongo::start_java() else { return };
    let cache = Cache::start_all(&[("mongodb", origin.address(), "feed = {}")], "");
    cache.log_line("feed lost, nothing is cached");
    is_never_a_hit(&origin.address(), &cache);
}

fn is_never_a_hit(origin: &std::net::SocketAddr, cache: &Cache) {
    let (through, around) = (Replica::client(cache.address()), Replica::client(*origin));
    let (through, around) = (users(&through), users(&around));
    for round in 0..10 {
        write(&around, round);
        assert_eq!((value(&through), value(&through)), (Some(round), Some(round)));
    }
    assert_eq!(cache.hits() as u64, 0);
}
