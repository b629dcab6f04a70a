//! A write that bypasses the cache is seen, because the origin reports the key; while the feed is
//! down, nothing is cached.

use std::net::SocketAddr;

use crate::support::{
    database::Database,
    directory::TemporaryDirectory,
    enroute::{Cache, Enroute},
    origins::Redis,
    process::{free_address, until},
};
use redis::Commands;

#[test]
fn writes_around_the_cache_are_seen_through_the_feed() {
    if let Some(origin) = Redis::start() {
        follow_an_origin(origin.address());
    }
}

/// The feed tracks only the included keys; a flush is seen nevertheless.
#[test]
fn only_included_keys_are_asked_for() {
    let Some(origin) = Redis::start() else { return };
    let options = "feed = {}\ninclude = [\"user:*\", \"order:?:*\"]";
    let cache = Cache::start_all(&[("redis", origin.address(), options)], "");
    let (mut through, mut around) = (cache.redis(), origin.connection());
    let info = |around: &mut redis::Connection| -> String {
        redis::cmd("INFO").arg("stats").query(around).unwrap()
    };
    until("two prefixes", || info(&mut around).contains("tracking_total_prefixes:2"));
    let mut stored = |key: &str, value: &str| {
        let before = cache.hits();
        until("a hit", || {
            assert_eq!(through.get::<_, Option<String>>(key).unwrap().as_deref(), Some(value));
            cache.hits() > before
        });
    };
    for (key, value) in [("user:1", "a"), ("order:1:x", "b")] {
        let _: () = around.set(key, value).unwrap();
        stored(key, value);
    }
    let mut through = cache.redis();
    let mut becomes = |key: &str, value: Option<&str>| {
        until("seen", || through.get::<_, Option<String>>(key).unwrap().as_deref() == value);
    };
    let _: () = around.set("user:1", "c").unwrap();
    becomes("user:1", Some("c"));
    let _: () = redis::cmd("FLUSHALL").query(&mut around).unwrap();
    becomes("order:1:x", None);
}

/// The feed ends when its user loses its rights, is deleted or has another password, and resumes
/// once it is let in again.
#[test]
fn a_feed_whose_user_loses_its_rights_is_closed_until_it_has_them_again() {
    let Some(origin) = Redis::start() else { return };
    let mut around = origin.connection();
    let mut acl = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        redis::cmd("ACL").arg(words).exec(&mut around).unwrap();
    };
    acl("SETUSER feed on >secret +@all allkeys allchannels");
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("password");
    std::fs::write(&file, "secret\n").expect("a writable directory");
    let options = format!("feed = {{ user = \"feed\", password_file = \"{}\" }}", file.display());
    let cache = Cache::start_all(&[("redis", origin.address(), &options)], "");
    let (mut through, mut direct) = (cache.redis(), origin.connection());
    let mut hits_of = |value: &str, hits: bool| {
        let before = cache.hits();
        until(&format!("{value}, a hit: {hits}"), || {
            let told = through.get::<_, Option<String>>("key").unwrap();
            let counted = cache.hits() > before;
            told.as_deref() == Some(value) && counted == hits
        });
    };
    let losses = ["SETUSER feed -@all", "DELUSER feed", "SETUSER feed resetpass >other"];
    for (number, loss) in losses.into_iter().enumerate() {
        let _: () = direct.set("key", format!("before {number}")).unwrap();
        hits_of(&format!("before {number}"), true);
        acl(loss);
        if loss.contains("resetpass") {
            // A connection that has logged in keeps its rights.
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("USER").arg("feed").exec(&mut direct).unwrap();
        }
        until("the feed is lost", || {
            let log = cache.process().stderr();
            log.lines().filter(|line| line.contains("feed lost")).count() > number
        });
        let _: () = direct.set("key", format!("after {number}")).unwrap();
        hits_of(&format!("after {number}"), false);
        acl("SETUSER feed on >secret +@all allkeys allchannels");
        hits_of(&format!("after {number}"), true);
    }
}

/// The connection of the feed is closed by every form of CLIENT KILL, again and again, and with
/// each a key is written that nothing reports: the old value is not served after the loss.
#[test]
fn what_is_written_while_the_feed_is_killed_again_and_again_is_seen() {
    kill_again_and_again("feed = {}");
}

/// Each key is tracked anew after each loss.
#[test]
fn what_is_written_while_a_feed_by_key_is_killed_again_and_again_is_seen() {
    kill_again_and_again("feed = {}\ninclude = [\"*key\"]");
}

fn kill_again_and_again(options: &str) {
    let Some(origin) = Redis::start() else { return };
    let cache = Cache::start_all(&[("redis", origin.address(), options)], "");
    let mut around = origin.connection();
    let read = || cache.redis().get::<_, Option<String>>("key").ok().flatten();
    let hits_of = |value: &str| {
        let before = cache.hits();
        until(&format!("a hit of {value}"), || {
            // A client of the cache may be closed with the connection that it has at the origin.
            let told = read();
            assert!(told.is_none() || told.as_deref() == Some(value), "{told:?}, not {value}");
            told.is_some() && cache.hits() > before
        });
    };
    let losses = || {
        let log = cache.process().stderr();
        log.lines().filter(|line| line.contains("feed lost")).count()
    };
    for round in 0..KILLS {
        let _: () = around.set("key", format!("before {round}")).unwrap();
        until("seen", || read().is_some_and(|told| told == format!("before {round}")));
        hits_of(&format!("before {round}"));
        let (feed, lost) = (feed_at(&mut around), losses());
        let filter = match round % 4 {
            0 => vec!["ID", &feed.id],
            1 => vec!["ADDR", &feed.address],
            2 => vec!["TYPE", "normal"],
            _ => vec!["USER", "default", "SKIPME", "yes"],
        };
        let mut at_once = redis::pipe();
        at_once.cmd("CLIENT").arg("KILL").arg(filter).ignore();
        at_once.set("key", format!("after {round}")).ignore();
        at_once.exec(&mut around).unwrap();
        until("the feed is lost", || losses() > lost);
        hits_of(&format!("after {round}"));
    }
}

/// Kills of one feed.
const KILLS: usize = 12;

struct FeedAt {
    id: String,
    address: String,
}

/// The feed, as the origin lists its clients; waits until it is connected.
fn feed_at(around: &mut redis::Connection) -> FeedAt {
    let mut found = None;
    until("a tracking client", || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(around).unwrap();
        let tracks = |line: &&str| line.contains("flags=t") || line.contains("flags=B");
        found = clients.lines().find(tracks).map(|feed| {
            let word = |name| feed.split(' ').find_map(|word| word.strip_prefix(name));
            let word = |name| word(name).expect("told").to_owned();
            FeedAt { id: word("id="), address: word("addr=") }
        });
        found.is_some()
    });
    found.expect("found")
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
        until("the new value is read through the cache", || {
            through.get::<_, Option<i64>>("key").unwrap() == Some(round)
        });
    }
    let _: () = redis::cmd("FLUSHALL").query(&mut around).unwrap();
    until("the flush is seen", || through.get::<_, Option<i64>>("key").unwrap().is_none());

    // The feed's connection is killed: a write during the outage must be seen too.
    let _: () = redis::cmd("SET").arg("key").arg("before").query(&mut around).unwrap();
    until("cached", || {
        through.get::<_, Option<String>>("key").unwrap().as_deref() == Some("before")
    });
    let id = feed_at(&mut around).id;
    let _: () = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut around).unwrap();
    let _: () = around.set("key", "after").unwrap();
    enroute.stderr_line("feed lost");
    until("the write during the loss is seen", || {
        through.get::<_, Option<String>>("key").unwrap().as_deref() == Some("after")
    });
    enroute.stderr_line("feed established");
    assert!(enroute.terminate().status.success());
}
