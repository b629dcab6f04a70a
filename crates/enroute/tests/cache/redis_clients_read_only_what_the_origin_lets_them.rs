//! A client of a Redis cache may read what its own connection to the origin may read: a client that
//! is not logged in receives no answer stored for others, and after a right was revoked at the
//! origin there are no hits once the authorization lease has elapsed.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const VALUE: &str = "$1\r\nv\r\n";
const SHORT: &str = "[storage]\nauthorization_lease = \"300ms\"\n";

/// Repeats the read until it is served from storage.
fn ask_until_hit(cache: &Cache, client: &mut Raw, words: &str, reply: &str) {
    let hits = cache.hits();
    let started = std::time::Instant::now();
    while cache.hits() == hits {
        client.ask(words, reply);
        assert!(started.elapsed() < PATIENCE, "{words} is never answered from storage");
    }
}

/// Repeats the command until the reply begins with `start`; every earlier reply must be `VALUE`.
fn ask_until(client: &mut Raw, words: &str, start: &str) {
    let started = std::time::Instant::now();
    loop {
        client.command(words);
        let line = client.hear_line();
        if line.starts_with(start) {
            return;
        }
        client.hear(VALUE.strip_prefix(&line).expect("the value or the refusal"));
        assert!(started.elapsed() < PATIENCE, "{words} never hears {start}");
    }
}

/// `A` connects while the default user needs no password; then `change` requires one. What `A`
/// reads after that must not be served to later clients.
fn later_clients_are_refused_after(change: &str) {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut admin = Raw::connect(redis.address());
    let mut early = Raw::connect(cache.address());
    early.ask("SET k v", "+OK\r\n");
    admin.ask(change, "+OK\r\n");
    for _ in 0..3 {
        ask_until_hit(&cache, &mut early, "GET k", VALUE);
        let mut late = Raw::connect(cache.address());
        for _ in 0..3 {
            late.ask("GET k", NOAUTH);
            late.ask("MGET k k", NOAUTH);
        }
    }
}

#[test]
fn later_clients_are_refused_after_the_default_user_got_a_password() {
    later_clients_are_refused_after("ACL SETUSER default resetpass >pw");
}

#[test]
fn later_clients_are_refused_after_the_default_user_was_switched_off() {
    later_clients_are_refused_after("ACL SETUSER default off");
}

/// Checks that `alice` is refused an answer that she received from storage before `change`, which
/// bypasses the cache.
fn no_hit_after(rights: &str, change: &str, refusal: &str) {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), SHORT);
    let mut admin = Raw::connect(redis.address());
    admin.ask(&format!("ACL SETUSER alice on >pw {rights}"), "+OK\r\n");
    admin.ask("SET k v", "+OK\r\n");
    let mut other = Raw::connect(cache.address());
    let mut alice = Raw::connect(cache.address());
    alice.ask("AUTH alice pw", "+OK\r\n");
    ask_until_hit(&cache, &mut alice, "GET k", VALUE);
    admin.command(change);
    admin.hear_line();
    // Hits of one user do not renew the rights of another.
    for _ in 0..3 {
        ask_until_hit(&cache, &mut other, "GET k", VALUE);
    }
    match refusal {
        "" => {
            let started = std::time::Instant::now();
            // The origin closes the connection, and therefore the cache closes the client's.
            while alice.is_open() {
                assert!(started.elapsed() < PATIENCE, "the deleted user's client is kept");
                std::thread::yield_now();
            }
        }
        _ => ask_until(&mut alice, "GET k", refusal),
    }
}

#[test]
fn no_hit_after_the_command_was_revoked() {
    no_hit_after("~* +@all", "ACL SETUSER alice -get", "-NOPERM");
    // A user that may not read its own rights has separate entries, for no longer than the lease.
    no_hit_after("~* +get +pttl", "ACL SETUSER alice -get", "-NOPERM");
}

#[test]
fn no_hit_after_the_key_was_revoked() {
    no_hit_after("~* +@all", "ACL SETUSER alice resetkeys ~other:*", "-NOPERM");
    no_hit_after("~* +get +pttl", "ACL SETUSER alice resetkeys ~other:*", "-NOPERM");
}

#[test]
fn no_hit_after_the_user_was_deleted() {
    no_hit_after("~* +@all", "ACL DELUSER alice", "");
}

#[test]
fn the_right_to_mget_does_not_include_get() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut admin = Raw::connect(redis.address());
    admin.ask("SET k v", "+OK\r\n");
    for (user, rights) in [("bob", "+mget +pttl"), ("carol", "+mget +pttl +acl|getuser")] {
        admin.ask(&format!("ACL SETUSER {user} on >pw ~* {rights}"), "+OK\r\n");
        let mut client = Raw::connect(cache.address());
        client.ask(&format!("AUTH {user} pw"), "+OK\r\n");
        ask_until_hit(&cache, &mut client, "MGET k", &format!("*1\r\n{VALUE}"));
        for _ in 0..3 {
            client.command("GET k");
            assert!(client.hear_line().starts_with("-NOPERM"), "{user} may not GET");
        }
    }
}

#[test]
fn the_rights_of_a_user_without_acl_getuser_are_asked_for_once() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), SHORT);
    let mut admin = Raw::connect(redis.address());
    admin.ask("SET k v", "+OK\r\n");
    admin.ask("ACL SETUSER bob on >pw ~* +get +pttl", "+OK\r\n");
    for _ in 0..3 {
        let mut bob = Raw::connect(cache.address());
        bob.ask("AUTH bob pw", "+OK\r\n");
        for _ in 0..2 {
            ask_until_hit(&cache, &mut bob, "GET k", VALUE);
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    }
    let mut connection = redis.connection();
    let log: Vec<redis::Value> =
        redis::cmd("ACL").arg("LOG").query(&mut connection).expect("a list");
    assert_eq!(log.len(), 1, "{log:?}");
    let text = format!("{log:?}");
    assert!(text.contains("acl|getuser"), "{text}");
    let redis::Value::Array(entry) = &log[0] else { panic!("{text}") };
    assert_eq!(entry[1], redis::Value::Int(1), "it is refused once: {text}");
}
