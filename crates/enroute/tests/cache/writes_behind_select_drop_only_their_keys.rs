//! Writes that are pipelined after SELECT or HELLO drop the keys that they name, in the database
//! that is then selected, whether the server executes SELECT or refuses it.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;

/// Repeats a read of `key` until it is served from storage.
fn ask_until_hit(cache: &Cache, client: &mut Raw, key: &str, value: &str) {
    let hits = cache.hits();
    let started = std::time::Instant::now();
    while cache.hits() == hits {
        client.ask(&format!("GET {key}"), &format!("$1\r\n{value}\r\n"));
        assert!(started.elapsed() < PATIENCE, "never answered from storage");
    }
}

#[test]
fn writes_behind_select_drop_only_their_keys() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut zero = Raw::connect(cache.address());
    let mut one = Raw::connect(cache.address());
    one.ask("SELECT 1", "+OK\r\n");
    let mut writer = Raw::connect(cache.address());
    for (database, in_zero, in_one) in [("1", "0", "2"), ("9999", "3", "2"), ("1", "3", "4")] {
        writer.ask("SELECT 0", "+OK\r\n");
        writer.ask("SET b b", "+OK\r\n");
        for client in [&mut zero, &mut one] {
            client.command("GET a");
            let length = client.hear_line();
            client.hear_bytes(if length == "$1\r\n" { 3 } else { 0 });
        }
        ask_until_hit(&cache, &mut zero, "b", "b");
        let value = if database == "1" { in_one } else { in_zero };
        writer.say(format!("SELECT {database}\r\nSET a {value}\r\nSET c {value}\r\n"));
        let refused = writer.hear_line().starts_with('-');
        assert_eq!(refused, database == "9999");
        writer.hear("+OK\r\n+OK\r\n");
        let expected = |value: &str| match value {
            "0" => "$-1\r\n".to_owned(),
            value => format!("$1\r\n{value}\r\n"),
        };
        for _ in 0..3 {
            zero.ask("GET a", &expected(in_zero));
            one.ask("GET a", &expected(in_one));
        }
        // Another key of the database is still served from storage.
        let hits = cache.hits();
        zero.ask("GET b", "$1\r\nb\r\n");
        cache.statistics_once(|statistics| statistics["hits"] > hits);
    }
}
