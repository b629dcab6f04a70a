//! The absence of a Redis key is served from storage until the key is written: by another client of
//! the cache, or bypassing the cache if a feed reports the write.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;

const ABSENT: &str = "$-1\r\n";

/// Repeats the read until it is served from storage.
fn ask_until_hit(cache: &Cache, client: &mut Raw) {
    let hits = cache.hits();
    let started = std::time::Instant::now();
    while cache.hits() == hits {
        client.ask("GET k", ABSENT);
        assert!(started.elapsed() < PATIENCE, "never answered from storage");
    }
}

#[test]
fn absent_redis_keys_are_hits_until_they_are_written() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start_all(&[("redis", redis.address(), "feed = {}")], "");
    let mut reader = Raw::connect(cache.address());
    let mut writer = Raw::connect(cache.address());
    ask_until_hit(&cache, &mut reader);
    writer.ask("SET k v", "+OK\r\n");
    reader.ask("GET k", "$1\r\nv\r\n");
    writer.ask("DEL k", ":1\r\n");
    ask_until_hit(&cache, &mut reader);
    // Bypasses the cache.
    Raw::connect(redis.address()).ask("SET k w", "+OK\r\n");
    let started = std::time::Instant::now();
    loop {
        reader.command("GET k");
        if reader.hear_line() == "$1\r\n" {
            break reader.hear("w\r\n");
        }
        assert!(started.elapsed() < PATIENCE, "the write is never seen");
    }
}
