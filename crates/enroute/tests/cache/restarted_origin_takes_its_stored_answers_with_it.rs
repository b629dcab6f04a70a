//! After an origin has restarted without its data, no client gets an earlier answer: neither a
//! client that only has hits, nor any client after one of them has received a reply of the new
//! origin.

use std::time::Instant;

use crate::support::enroute::Cache;
use crate::support::message::Client;
use crate::support::origins::{Memcached, Redis};
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;
use crate::support::scripted::ScriptedOrigin;

const VALUE: &str = "$1\r\nv\r\n";
const NULL: &str = "$-1\r\n";

fn hits(cache: &Cache, client: &mut Raw) {
    client.ask("SET k v", "+OK\r\n");
    let before = cache.hits();
    while cache.hits() == before {
        client.ask("GET k", VALUE);
    }
}

#[test]
fn a_client_that_only_hits_is_told_soon() {
    let Some(mut redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut client = Raw::connect(cache.address());
    hits(&cache, &mut client);
    redis.bring_down();
    // While the origin is down, stored answers are served.
    client.ask("GET k", VALUE);
    redis.bring_up();
    let began = Instant::now();
    loop {
        client.command("GET k");
        if client.hear_line() == NULL {
            return;
        }
        client.hear("v\r\n");
        assert!(began.elapsed() < PATIENCE, "still answered with a lost value");
    }
}

/// The origin is killed and restarted without a pause in between.
#[test]
fn no_client_is_told_of_it_once_one_has_heard_the_new_origin() {
    let Some(mut redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut hitting = Raw::connect(cache.address());
    for round in 0..20 {
        hits(&cache, &mut hitting);
        redis.bring_down();
        redis.bring_up();
        let mut new = Raw::connect(cache.address());
        // The new origin may not be up yet; an error is no reply of it.
        new.command("PING");
        while new.hear_line() != "+PONG\r\n" {
            new.command("PING");
        }
        hitting.ask("GET k", NULL);
        eprintln!("round {round}");
    }
}

#[test]
fn an_origin_without_an_identity_is_another_after_a_loss() {
    let Some(mut redis) = Redis::start_with(&["--requirepass", "secret"]) else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut client = Raw::connect(cache.address());
    client.ask("AUTH secret", "+OK\r\n");
    hits(&cache, &mut client);
    redis.bring_down();
    redis.bring_up();
    let mut new = Raw::connect(cache.address());
    new.command("AUTH secret");
    while new.hear_line() != "+OK\r\n" {
        new = Raw::connect(cache.address());
        new.command("AUTH secret");
    }
    new.ask("GET k", NULL);
}

/// The same process is the same origin: a lost connection drops no entries.
#[test]
fn a_lost_connection_to_the_same_origin_drops_nothing() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut client = Raw::connect(cache.address());
    hits(&cache, &mut client);
    let mut direct = redis.connection();
    let killed: i64 = redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .query(&mut direct)
        .expect("killed");
    assert!(killed >= 2, "the client's and the watch's");
    let mut new = Raw::connect(cache.address());
    new.ask("PING", "+PONG\r\n");
    let before = cache.hits();
    new.ask("GET k", VALUE);
    assert!(cache.hits() > before, "it was dropped");
}

#[test]
fn a_memcached_that_is_started_again_is_another_origin() {
    let Some(mut memcached) = Memcached::start() else { return };
    let cache = Cache::start("memcached", memcached.address(), "");
    let mut client = Raw::connect(cache.address());
    client.say("set k 0 0 1\r\nv\r\n");
    client.hear("STORED\r\n");
    let began = Instant::now();
    while cache.hits() < 1.0 {
        client.say("get k\r\n");
        client.hear("VALUE k 0 1\r\nv\r\nEND\r\n");
        assert!(began.elapsed() < PATIENCE, "never stored");
    }
    memcached.bring_down();
    memcached.bring_up();
    loop {
        client.say("get k\r\n");
        if client.hear_line() == "END\r\n" {
            return;
        }
        client.hear("v\r\nEND\r\n");
        assert!(began.elapsed() < PATIENCE, "still answered with a lost item");
    }
}

#[test]
fn a_mongodb_of_another_process_is_another_origin() {
    let script = "always find\nreply {\"ok\": 1, \"cursor\": {\"id\": 0, \"ns\": \"d.c\", \
                  \"firstBatch\": []}}\nalways listCollections\nreply {\"ok\": 1, \"cursor\": \
                  {\"id\": 0, \"ns\": \"d.c\", \"firstBatch\": []}}\nalways ping\nreply {\"ok\": 1}\n";
    let origin = ScriptedOrigin::start(script);
    let cache = Cache::start("mongodb", origin.address(), "");
    let mut client = Client::connect(cache.address());
    let find = || bson::doc! { "find": "c", "filter": { "_id": 1 }, "$db": "d" };
    let began = Instant::now();
    while cache.hits() < 1.0 {
        client.command(find());
        assert!(began.elapsed() < PATIENCE, "never stored");
    }
    origin.become_another();
    cache.log_line("all its entries are dropped");
}
