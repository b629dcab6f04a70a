//! `enroute explain` with the running binary: it reports the result of the next read, and does not
//! change the cache.

use crate::support::{
    enroute::{Cache, Enroute, admin, admin_post},
    origins::{Mongo, Redis},
    process::free_address,
};
use mongodb::bson::{Document, doc};
use serde_json::Value;

/// The output of `enroute explain` on both streams, and whether it succeeded.
fn explain(arguments: &[&str]) -> (bool, String) {
    let ended = Enroute::start(&[&["explain"], arguments].concat()).wait();
    (ended.status.success(), ended.stdout + &ended.stderr)
}

#[test]
fn explain_tells_a_miss_then_a_hit_and_changes_nothing() {
    let Some(redis) = Redis::start() else { return };
    let origin = format!("redis://{}", redis.address());
    let cache = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    let enroute = Enroute::start(&[&cache[..], &["--admin", "127.0.0.1:0"]].concat());
    let (listen, at) = (enroute.listen_address("redis"), enroute.admin_address());
    let (url, at_text) = (format!("redis://{listen}"), at.to_string());
    let asked = ["--listen", &url, "--admin", &at_text, "GET", "user:1"];
    let statistics = || {
        let mut statistics: Value = serde_json::from_str(&admin(at, "/stats").body).unwrap();
        for changing in ["uptime_seconds", "process"] {
            statistics[changing].take();
        }
        statistics
    };

    let client = redis::Client::open(format!("redis://{listen}/")).unwrap();
    let mut client = client.get_connection().unwrap();
    redis::cmd("SET").arg("user:1").arg("do-not-show").exec(&mut client).unwrap();
    let (done, text) = explain(&asked);
    assert!(done && text.contains("result: miss (not-stored)"), "{text}");

    // The first read makes the cache query the connection's rights.
    for _ in 0..2 {
        redis::cmd("GET").arg("user:1").exec(&mut client).unwrap();
    }
    let before = statistics();
    let (done, text) = explain(&asked);
    assert!(done, "{text}");
    for part in ["result: hit", "connections with all rights", "age: at most", "300.0 s (ttl)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("do-not-show"), "{text}");
    assert_eq!(statistics(), before, "explaining has changed the cache");

    redis::cmd("SET").arg("user:1").arg("other").exec(&mut client).unwrap();
    let (_, text) = explain(&asked);
    assert!(text.contains("result: miss (not-stored)"), "{text}");
}

#[test]
fn explain_tells_a_find_of_mongodb() {
    let Some(mongo) = Mongo::start_java() else { return };
    let cache = Cache::start("mongodb", mongo.address(), "[admin]\nlisten = \"127.0.0.1:0\"\n");
    let client = mongodb::sync::Client::with_uri_str(format!(
        "mongodb://{}/?directConnection=true",
        cache.address()
    ))
    .unwrap();
    let items = client.database("shop").collection::<Document>("items");
    items.insert_one(doc! { "_id": 42, "name": "pen" }).run().unwrap();
    let line = cache.log_line("admin: http://");
    let at = line.rsplit("http://").next().unwrap().trim_end_matches('/');
    let asked = ["--admin", at, "find", "shop.items", "{\"_id\": 42}"];
    let (done, text) = explain(&asked);
    assert!(done && text.contains("result: miss (not-stored)"), "{text}");
    for _ in 0..3 {
        items.find_one(doc! { "_id": 42 }).run().unwrap();
    }
    let (done, text) = explain(&asked);
    assert!(done && text.contains("result: hit") && !text.contains("pen"), "{text}");
}

#[test]
fn explain_says_what_it_expects() {
    let Some(redis) = Redis::start() else { return };
    let origin = redis.address();
    let listener = |scheme: &str| {
        format!(
            "[[listener]]\nlisten = \"{scheme}://127.0.0.1:0\"\norigin = \"{scheme}://{origin}\"\n"
        )
    };
    let config = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n{}{}",
        listener("redis"),
        listener("memcached")
    );
    let enroute = Enroute::start_with_config(&["cache"], &config);
    let at = enroute.admin_address();
    let (at_text, redis) = (at.to_string(), enroute.listen_address("redis").to_string());
    let closed = free_address().to_string();
    for (arguments, expected) in [
        (vec!["--admin", &at_text, "GET", "k"], "expected the address of one listener: 127.0.0.1:"),
        (vec!["--admin", &at_text, "--listen", &closed, "GET", "k"], "the address of one listener"),
        (vec!["--admin", &at_text, "--listen", &redis, "SET", "k", "v"], "a command that reads"),
        (vec!["--admin", &closed, "GET", "k"], "start the process with --admin"),
    ] {
        let (done, text) = explain(&arguments);
        assert!(!done && text.contains(expected), "{arguments:?}: {text}");
    }
    let answer = admin_post(at, "/explain", "{}");
    assert!(answer.status == 400 && answer.body.contains("user:42"), "{}", answer.body);
}
