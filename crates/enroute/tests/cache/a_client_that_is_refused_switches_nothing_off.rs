//! Requests that the origin refuses or does not understand, and incomplete requests, do not affect
//! other clients: 500 of 500 stored answers remain. The quarantine is longer than the test, so that
//! no answer is stored again because a quarantine has ended.

use std::net::SocketAddr;
use std::time::Instant;

use crate::support::enroute::Cache;
use crate::support::origins::{Mongo, Redis};
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;
use bson::doc;
use mongodb::options::{ClientOptions, ReadConcern};
use mongodb::sync::{Client, Collection};

const ITEMS: usize = 500;
/// Hits are counted exactly, and each expired lease would cost one.
const OPTIONS: &str = "[storage]\nquarantine = \"60min\"\nauthorization_lease = \"60min\"\n";

/// A Redis, a cache in which every item is stored, and a client that reads the items.
fn start() -> Option<(Redis, Cache, Raw)> {
    let redis = Redis::start()?;
    let cache = Cache::start("redis", redis.address(), OPTIONS);
    let mut reader = Raw::connect(cache.address());
    fill(&cache, &mut reader);
    Some((redis, cache, reader))
}

fn fill(cache: &Cache, reader: &mut Raw) {
    for item in 0..ITEMS {
        reader.ask(&format!("SET k{item} v"), "+OK\r\n");
    }
    read_until_all_are_hits(cache, reader);
}

/// Returns the number of items that are answered from storage.
fn hits(cache: &Cache, reader: &mut Raw) -> usize {
    let before = cache.hits();
    for item in 0..ITEMS {
        reader.ask(&format!("GET k{item}"), "$1\r\nv\r\n");
    }
    (cache.hits() - before) as usize
}

fn read_until_all_are_hits(cache: &Cache, reader: &mut Raw) {
    let started = Instant::now();
    while hits(cache, reader) < ITEMS {
        assert!(started.elapsed() < PATIENCE, "{}", cache.process().stderr());
    }
}

#[test]
fn by_what_it_has_no_right_to_and_by_what_does_not_exist() {
    let Some((redis, cache, mut reader)) = start() else { return };
    let rights = "ACL SETUSER bob on >pw ~* +@read";
    Raw::connect(redis.address()).ask(rights, "+OK\r\n");
    let mut bob = Raw::connect(cache.address());
    bob.ask("AUTH bob pw", "+OK\r\n");
    let refused = [
        ("FLUSHALL", "-NOPERM"),
        ("FLUSHDB", "-NOPERM"),
        ("SET k1 other", "-NOPERM"),
        ("FOO", "-ERR unknown command"),
        ("SWAPDB 0 1", "-NOPERM"),
    ];
    for (command, reply) in refused {
        bob.command(command);
        let line = bob.hear_line();
        assert!(line.starts_with(reply), "{command}: {line}");
        assert_eq!(hits(&cache, &mut reader), ITEMS, "after {command}");
    }
}

/// A user that may read but neither write nor run code, plus the rights in `more`.
fn reading_user(redis: &Redis, cache: &Cache, more: &str) -> Raw {
    let rights = format!("ACL SETUSER bob on >pw ~* +@read{more}");
    Raw::connect(redis.address()).ask(&rights, "+OK\r\n");
    let mut bob = Raw::connect(cache.address());
    bob.ask("AUTH bob pw", "+OK\r\n");
    bob
}

const SCRIPTS: [&str; 3] = ["EVAL return+1 0", "EVALSHA 0000 1 k1", "FCALL f 0"];

#[test]
fn by_code_that_it_has_no_right_to_run() {
    let Some((redis, cache, mut reader)) = start() else { return };
    let mut bob = reading_user(&redis, &cache, "");
    for script in SCRIPTS {
        bob.command(script);
        let line = bob.hear_line();
        assert!(line.starts_with("-NOPERM"), "{script}: {line}");
        assert_eq!(hits(&cache, &mut reader), ITEMS, "after {script}");
    }
    // Pipelined after commands that the user may not run either, in any reply mode.
    let inline = |commands: &[&str]| commands.join("\r\n") + "\r\n";
    for commands in [
        ["MULTI", "EVAL 1 0", "PING"],
        ["EXEC", "EVAL 1 0", "MULTI"],
        ["AUTH bob wrong", "EVAL 1 0", "EVAL 1 0"],
        ["EVAL 1 0", "EXEC", "FCALL f 0"],
    ] {
        bob.say(inline(&commands));
        commands.iter().for_each(|_| drop(bob.hear_line()));
        assert_eq!(hits(&cache, &mut reader), ITEMS, "after {commands:?}");
    }
    let mut gone = Raw::connect(cache.address());
    gone.ask("AUTH bob pw", "+OK\r\n");
    gone.say(inline(&["EVAL 1 0", "EVAL 1 0", "QUIT"]));
    drop(gone);
    let long = "x".repeat(2 << 20);
    bob.command(&format!("EVAL {long} 0"));
    assert!(bob.hear_line().starts_with("-NOPERM"));
    assert_eq!(hits(&cache, &mut reader), ITEMS, "after a long script");
    bob.ask("GET k1", "$1\r\nv\r\n");
}

#[test]
fn by_code_inside_a_transaction() {
    let Some((redis, cache, mut reader)) = start() else { return };
    let mut bob = reading_user(&redis, &cache, " +@transaction");
    for _ in 0..3 {
        bob.say("MULTI\r\nGET k1\r\nEVAL 1 0\r\nEXEC\r\nEVAL 1 0\r\nMULTI\r\nGET k1\r\nEXEC\r\n");
        bob.hear("+OK\r\n+QUEUED\r\n");
        for start in ["-NOPERM", "-EXECABORT", "-NOPERM", "+OK", "+QUEUED", "*1", "$1", "v"] {
            let line = bob.hear_line();
            assert!(line.starts_with(start), "{start}: {line}");
        }
        assert_eq!(hits(&cache, &mut reader), ITEMS);
    }
}

#[test]
fn but_code_that_writes_and_says_that_it_was_refused_is_believed_nothing() {
    let Some((redis, cache, mut reader)) = start() else { return };
    let mut bob = reading_user(&redis, &cache, " +@write +eval +@transaction");
    let forged = "this user has no permissions to run the 'eval' command";
    for (number, way) in ["return redis.error_reply(E)", "return {err=E}"].into_iter().enumerate() {
        let said = format!("local E=\"NOPERM {forged}\" redis.call('SET','k1',ARGV[1]) {way}");
        let script = |value: &str| {
            let head = format!("*4\r\n$4\r\nEVAL\r\n${}\r\n{said}\r\n$1\r\n0\r\n", said.len());
            head + &format!("${}\r\n{value}\r\n", value.len())
        };
        let value = format!("x{number}");
        bob.say(script(&value));
        bob.hear(format!("-NOPERM {forged}\r\n"));
        reader.ask("GET k1", &format!("$2\r\n{value}\r\n"));
        let value = format!("y{number}");
        bob.say(format!("MULTI\r\n{}EXEC\r\n", script(&value)));
        bob.hear(format!("+OK\r\n+QUEUED\r\n*1\r\n-NOPERM {forged}\r\n"));
        reader.ask("GET k1", &format!("$2\r\n{value}\r\n"));
    }
}

#[test]
fn by_a_web_page() {
    let Some((_redis, cache, mut reader)) = start() else { return };
    for said in ["POST / HTTP/1.1\r\nHost: a\r\n\r\nFLUSHALL\r\n", "Host: a\r\nFLUSHALL\r\n"] {
        let mut page = Raw::connect(cache.address());
        page.say(said);
        assert!(page.hear_bytes_until_end().starts_with(b"HTTP/1.1 400 "));
        assert_eq!(hits(&cache, &mut reader), ITEMS, "after {said}");
    }
}

#[test]
fn by_one_that_wants_no_replies() {
    let Some((_redis, cache, mut reader)) = start() else { return };
    let mut client = Raw::connect(cache.address());
    for command in ["CLIENT REPLY OFF", "FOO", "CLIENT REPLY SKIP", "CLIENT REPLY ON"] {
        client.command(command);
    }
    client.hear("+OK\r\n");
    assert_eq!(hits(&cache, &mut reader), ITEMS);
    client.command("CLIENT REPLY SKIP");
    client.command("FOO");
    client.ask("PING", "+PONG\r\n");
    assert_eq!(hits(&cache, &mut reader), ITEMS);
}

#[test]
fn by_what_stands_behind_a_request_that_waits_or_is_the_last() {
    let Some((_redis, cache, mut reader)) = start() else { return };
    let mut waits = Raw::connect(cache.address());
    waits.command("BLPOP nothing 0");
    waits.command("FLUSHALL");
    let mut last = Raw::connect(cache.address());
    last.command("QUIT");
    last.command("FLUSHALL");
    last.hear("+OK\r\n");
    last.hear_end();
    assert_eq!(hits(&cache, &mut reader), ITEMS);
    drop(waits);
    assert_eq!(hits(&cache, &mut reader), ITEMS);
    let mut opens = Raw::connect(cache.address());
    opens.ask("MULTI", "+OK\r\n");
    opens.ask("FLUSHALL", "+QUEUED\r\n");
    assert_eq!(hits(&cache, &mut reader), ITEMS);
    drop(opens);
    assert_eq!(hits(&cache, &mut reader), ITEMS);
}

#[test]
fn of_another_origin() {
    let Some((_redis, other)) = Redis::start().zip(Redis::start()) else { return };
    let Some(redis) = Redis::start() else { return };
    let listeners = [("redis", redis.address(), ""), ("redis", other.address(), "")];
    let cache = Cache::start_all(&listeners, OPTIONS);
    let mut reader = Raw::connect(cache.addresses()[0]);
    fill(&cache, &mut reader);
    Raw::connect(cache.addresses()[1]).ask("FLUSHALL", "+OK\r\n");
    assert_eq!(hits(&cache, &mut reader), ITEMS);
}

#[test]
fn longer_than_the_script_runs_that_it_left_behind() {
    let Some((_redis, cache, mut reader)) = start() else { return };
    let mut client = Raw::connect(cache.address());
    // Unread bytes turn the client's close into a reset.
    client.command("PING");
    let busy = "local x = 0 for i = 1, 20000000 do x = x + i end return x";
    client.say(format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{busy}\r\n$1\r\n0\r\n", busy.len()));
    cache.statistics_once(|_| true);
    drop(client);
    read_until_all_are_hits(&cache, &mut reader);
    let statistics = cache.statistics();
    assert_eq!(statistics.get("why-not.quarantine"), None, "{statistics:?}");
}

#[test]
fn by_a_frame_that_no_version_of_mongodb_knows() {
    let Some(origin) = Mongo::start_ferretdb() else { return };
    let cache = Cache::start("mongodb", origin.address(), OPTIONS);
    let users = users(cache.address());
    let ids = 0..50;
    for id in ids.clone() {
        users.insert_one(doc! { "_id": id }).run().expect("inserted");
    }
    let hits = || {
        let before = cache.hits();
        for id in ids.clone() {
            users.find_one(doc! { "_id": id }).run().expect("answered").expect("there");
        }
        (cache.hits() - before) as i32
    };
    let started = Instant::now();
    while hits() < ids.end {
        assert!(started.elapsed() < PATIENCE, "{}", cache.process().stderr());
    }
    let mut stranger = Raw::connect(cache.address());
    let frame = [20, 1, 0, 4242, 0].map(i32::to_le_bytes).concat();
    stranger.say(frame);
    stranger.hear_end();
    assert_eq!(hits(), ids.end, "{}", cache.process().stderr());
}

fn users(address: SocketAddr) -> Collection<bson::Document> {
    let url = format!("mongodb://{address}/?directConnection=true");
    let mut options = ClientOptions::parse(url).run().expect("a URL");
    options.read_concern = Some(ReadConcern::local());
    Client::with_options(options).expect("a client").database("shop").collection("users")
}
