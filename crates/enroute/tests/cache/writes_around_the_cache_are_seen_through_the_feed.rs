//! A writer that goes around the cache is seen, because the origin names what it wrote; and while
//! the origin does not, nothing is cached.

use std::net::SocketAddr;
use std::time::Instant;

use crate::support::{
    database::Database,
    enroute::Enroute,
    origins::Redis,
    process::{PATIENCE, free_address},
};
use redis::Commands;

/// Retries until the condition holds; the limit only ends a broken run.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn writes_around_the_cache_are_seen_through_the_feed() {
    if let Some(origin) = Redis::start() {
        follow_an_origin(origin.address());
    }
}

#[test]
fn writes_made_directly_at_the_database_are_seen_through_the_feed() {
    follow_an_origin(Database::start().address());
}

fn follow_an_origin(origin: SocketAddr) {
    let listen = free_address();
    let cache_url = format!("redis://{listen}/");
    let mut enroute = Enroute::start(&[
        "--log",
        "info",
        "cache",
        "--feed",
        "--workers",
        "1",
        "--listen",
        &format!("redis://{listen}"),
        "--origin",
        &format!("redis://{origin}"),
    ]);
    enroute.accepting(&[listen]);
    enroute.stderr_line("feed established");

    let connect = |url: &str| redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut through = connect(&cache_url);
    let mut around = connect(&format!("redis://{origin}/"));
    for round in 0..200 {
        let _: () = around.set("key", round).unwrap();
        eventually("the new value is read through the cache", || {
            through.get::<_, Option<i64>>("key").unwrap() == Some(round)
        });
    }
    let _: () = redis::cmd("FLUSHALL").query(&mut around).unwrap();
    eventually("the flush is seen", || through.get::<_, Option<i64>>("key").unwrap().is_none());

    // The feed's own connection is killed: what is written before it is back must be seen too.
    let _: () = redis::cmd("SET").arg("key").arg("before").query(&mut around).unwrap();
    eventually("cached", || {
        through.get::<_, Option<String>>("key").unwrap().as_deref() == Some("before")
    });
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut around).unwrap();
    let feed = clients.lines().find(|line| line.contains("flags=t") || line.contains("flags=B"));
    let feed = feed.unwrap_or_else(|| panic!("no tracking client in\n{clients}"));
    let id = feed.split_whitespace().find_map(|word| word.strip_prefix("id=")).unwrap();
    let _: () = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut around).unwrap();
    let _: () = around.set("key", "after").unwrap();
    enroute.stderr_line("feed lost");
    eventually("the write during the loss is seen", || {
        through.get::<_, Option<String>>("key").unwrap().as_deref() == Some("after")
    });
    enroute.stderr_line("feed established");
    assert!(enroute.terminate().status.success());
}
