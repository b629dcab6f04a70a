//! Users, databases, subscriptions, blocking pops and tracking belong to one connection; the cache
//! never serves a connection what only another's state allows.

use std::net::SocketAddr;

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::raw::Raw;

fn start(options: &[&str]) -> Option<(Redis, Cache)> {
    let redis = Redis::start_with(options)?;
    let cache = Cache::start("redis", redis.address(), "");
    Some((redis, cache))
}

/// Repeats the read until it is served from storage: the first one fills, perhaps late.
fn ask_until_hit(cache: &Cache, client: &mut Raw, words: &str, reply: &str) {
    let hits = cache.hits();
    for _ in 0..100 {
        client.ask(words, reply);
        if cache.hits() > hits {
            return;
        }
    }
    panic!("{words} is never answered from storage");
}

#[test]
fn a_stored_answer_is_given_only_to_the_user_it_was_given_to() {
    let Some((_redis, cache)) = start(&["--requirepass", "secret"]) else { return };
    let denied = "-NOAUTH Authentication required.\r\n";
    let mut known = Raw::connect(cache.address());
    known.ask("GET k", denied);
    known.ask("AUTH secret", "+OK\r\n");
    known.ask("SET k v", "+OK\r\n");
    ask_until_hit(&cache, &mut known, "GET k", "$1\r\nv\r\n");
    Raw::connect(cache.address()).ask("GET k", denied);
    let mut wrong = Raw::connect(cache.address());
    wrong.command("AUTH guess");
    assert!(wrong.hear_line().starts_with("-WRONGPASS"));
    wrong.ask("GET k", denied);
}

#[test]
fn a_user_without_the_right_is_refused_what_another_is_given() {
    let Some((_redis, cache)) = start(&[]) else { return };
    let connect = |user: &str| {
        let mut client = Raw::connect(cache.address());
        client.ask(&format!("AUTH {user} pw"), "+OK\r\n");
        client
    };
    let mut admin = Raw::connect(cache.address());
    admin.ask("ACL SETUSER alice on >pw ~* +@all", "+OK\r\n");
    admin.ask("ACL SETUSER bob on >pw ~other:* +get +auth", "+OK\r\n");
    admin.ask("SET k v", "+OK\r\n");
    let mut alice = connect("alice");
    ask_until_hit(&cache, &mut alice, "GET k", "$1\r\nv\r\n");
    let mut bob = connect("bob");
    for _ in 0..3 {
        bob.command("GET k");
        assert!(bob.hear_line().starts_with("-NOPERM"));
    }
    // A revoked right ends at once.
    ask_until_hit(&cache, &mut alice, "GET k", "$1\r\nv\r\n");
    admin.ask("ACL SETUSER alice resetkeys ~other:*", "+OK\r\n");
    alice.command("GET k");
    assert!(alice.hear_line().starts_with("-NOPERM"));
}

#[test]
fn databases_do_not_mix() {
    let Some((_redis, cache)) = start(&[]) else { return };
    let mut clients = [0, 1].map(|database| {
        let mut client = Raw::connect(cache.address());
        client.ask(&format!("SELECT {database}"), "+OK\r\n");
        client.ask(&format!("SET k {database}"), "+OK\r\n");
        client
    });
    for (database, client) in clients.iter_mut().enumerate() {
        ask_until_hit(&cache, client, "GET k", &format!("$1\r\n{database}\r\n"));
    }
    clients[0].ask("SET k 7", "+OK\r\n");
    clients[0].ask("GET k", "$1\r\n7\r\n");
    clients[1].ask("GET k", "$1\r\n1\r\n");
}

#[test]
fn subscribers_are_told_and_leave_nothing_behind() {
    let Some((redis, cache)) = start(&[]) else { return };
    let mut direct = Raw::connect(redis.address());
    let mut subscriber = Raw::connect(cache.address());
    subscriber.ask("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    direct.ask("PUBLISH news hi", ":1\r\n");
    subscriber.hear("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    drop(subscriber);
    cache.statistics_once(|statistics| statistics["connections"] == 0.0);
    wait_until(&mut direct, "PUBSUB NUMSUB news", "*2\r\n$4\r\nnews\r\n:0\r\n");
}

#[test]
fn a_blocked_client_that_leaves_takes_nothing_with_it() {
    let Some((redis, cache)) = start(&[]) else { return };
    let mut direct = Raw::connect(redis.address());
    let mut stays = Raw::connect(cache.address());
    stays.command("BLPOP queue 0");
    wait_for_blocked(redis.address(), 1);
    direct.ask("RPUSH queue a", ":1\r\n");
    stays.hear("*2\r\n$5\r\nqueue\r\n$1\r\na\r\n");

    let mut leaves = Raw::connect(cache.address());
    leaves.command("BLPOP queue 0");
    wait_for_blocked(redis.address(), 1);
    drop(leaves);
    wait_for_blocked(redis.address(), 0);
    direct.ask("RPUSH queue b", ":1\r\n");
    direct.ask("LRANGE queue 0 -1", "*1\r\n$1\r\nb\r\n");
}

#[test]
fn a_client_that_tracks_keys_is_told_of_every_change() {
    let Some((_redis, cache)) = start(&[]) else { return };
    let mut writer = Raw::connect(cache.address());
    writer.ask("SET k 1", "+OK\r\n");
    ask_until_hit(&cache, &mut writer, "GET k", "$1\r\n1\r\n");
    let mut tracker = Raw::connect(cache.address());
    tracker.command("HELLO 3");
    assert_eq!(tracker.hear_line(), "%7\r\n");
    while tracker.hear_line() != "$7\r\n" || tracker.hear_line() != "modules\r\n" {}
    tracker.hear("*0\r\n");
    tracker.ask("CLIENT TRACKING ON", "+OK\r\n");
    tracker.ask("GET k", "$1\r\n1\r\n");
    writer.ask("SET k 2", "+OK\r\n");
    tracker.hear(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    tracker.ask("GET k", "$1\r\n2\r\n");
}

#[test]
fn what_expires_at_the_origin_expires_here() {
    let Some((_redis, cache)) = start(&[]) else { return };
    let mut client = Raw::connect(cache.address());
    // On a busy machine a short TTL may expire before the second read.
    let is_stored = |lives_ms: u32| {
        client.ask(&format!("SET k v PX {lives_ms}"), "+OK\r\n");
        let (hits, written) = (cache.hits(), std::time::Instant::now());
        loop {
            client.command("GET k");
            match client.hear_line().as_str() {
                "$-1\r\n" => return cache.hits() > hits,
                _ => client.hear("v\r\n"),
            }
            assert!(written.elapsed() < crate::support::process::PATIENCE, "it never expires");
        }
    };
    assert!([300, 3_000, 20_000].into_iter().any(is_stored), "the value was never stored");
}

fn wait_for_blocked(redis: SocketAddr, count: usize) {
    let url = format!("redis://{redis}/");
    let mut connection = redis::Client::open(url).expect("a URL").get_connection().expect("redis");
    let expected = format!("blocked_clients:{count}\r\n");
    let started = std::time::Instant::now();
    loop {
        let clients: String =
            redis::cmd("INFO").arg("clients").query(&mut connection).expect("a reply");
        if clients.contains(&expected) {
            return;
        }
        assert!(started.elapsed() < crate::support::process::PATIENCE, "{clients}");
    }
}

/// Repeats the command until the reply is as expected.
fn wait_until(client: &mut Raw, words: &str, reply: &str) {
    let started = std::time::Instant::now();
    loop {
        client.command(words);
        let mut heard = client.hear_line();
        for _ in 1..reply.matches('\n').count().max(heard_lines(&heard)) {
            heard.push_str(&client.hear_line());
        }
        if heard == reply {
            return;
        }
        assert!(started.elapsed() < crate::support::process::PATIENCE, "still {heard}");
    }
}

/// Returns the number of lines of the reply that begins with `first`: a bulk string has two.
fn heard_lines(first: &str) -> usize {
    if first.starts_with('$') && first != "$-1\r\n" { 2 } else { 1 }
}
