//! Keys that are asked for one after the other, more than fit: under SIEVE each is evicted before
//! it is asked for again; under Hull a part of them stays.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;

const CAPACITY: usize = 1_000;
const KEYS: usize = CAPACITY * 5 / 4;
const TURNS: usize = 12;

/// The share of hits in the last turns, and the number of replies that were not admitted.
fn circle(redis: &Redis, replacement: &str) -> (f64, f64) {
    let options = format!("[storage]\nreplacement = \"{replacement}\"\ncapacity = {CAPACITY}\n");
    let cache = Cache::start("redis", redis.address(), &options);
    let mut client = cache.redis();
    let mut turns = |count: usize| {
        let before = cache.hits();
        for key in (0..count).flat_map(|_| 0..KEYS) {
            let value: String =
                redis::cmd("GET").arg(format!("key:{key}")).query(&mut client).expect("a value");
            assert_eq!(value, key.to_string());
        }
        (cache.hits() - before) / (count * KEYS) as f64
    };
    turns(TURNS);
    let share = turns(TURNS / 2);
    (share, cache.statistics().get("not-filled.not-admitted").copied().unwrap_or_default())
}

#[test]
fn a_circle_larger_than_the_cache_is_answered_in_part() {
    let Some(redis) = Redis::start() else { return };
    let mut origin = redis.connection();
    for key in 0..KEYS {
        let _: () =
            redis::cmd("SET").arg(format!("key:{key}")).arg(key).query(&mut origin).expect("OK");
    }
    let (share, refused) = circle(&redis, "sieve");
    assert!(share < 0.1 && refused == 0.0, "sieve: {share:.2}, {refused} not admitted");
    // At best 4 of 5.
    let (share, refused) = circle(&redis, "hull");
    assert!(share > 0.6 && refused > 0.0, "hull: {share:.2}, {refused} not admitted");
}
