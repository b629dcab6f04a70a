//! One MGET of a stored key and of values longer than the buffers of all clients together: the
//! reply is that of the server, and the cache stays within its memory limit.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;

const MIB: usize = 1 << 20;
const LONG: usize = 100 * MIB;
/// The limit stated in `docs/guide/configuration.md`, for `memory` of 16 MiB.
const BOUND: usize = 17 * MIB + 96 * MIB;

#[test]
fn redis_mget_partly_stored_passes_long_values_as_they_come() {
    let Some(redis) = Redis::start() else { return };
    let mut direct = redis.connection();
    let long = vec![b'x'; LONG];
    for name in ["first", "last"] {
        redis::cmd("SET").arg(name).arg(&long).exec(&mut direct).expect("it is stored");
    }
    for name in ["a", "b", "c"] {
        redis::cmd("SET").arg(name).arg(name).exec(&mut direct).expect("it is stored");
    }
    let cache = Cache::start("redis", redis.address(), "[storage]\nmemory = \"16MiB\"\n");
    let mut client = cache.redis();
    while cache.hits() < 3.0 {
        for name in ["a", "b", "c"] {
            redis::cmd("GET").arg(name).exec(&mut client).expect("an answer");
        }
    }
    let names = ["a", "first", "none", "b", "last", "c"];
    for _ in 0..2 {
        let command = redis::cmd("MGET").arg(&names).clone();
        let hits = cache.hits();
        let told: Vec<Option<Vec<u8>>> = command.query(&mut client).expect("an answer");
        assert!(cache.hits() >= hits + 3.0, "nothing of it was stored");
        let expected: Vec<Option<Vec<u8>>> = command.query(&mut direct).expect("an answer");
        assert!(told == expected, "another answer than the server's");
        let next: String = redis::cmd("GET").arg("b").query(&mut client).expect("an answer");
        assert_eq!(next, "b");
    }
    let peak = cache.process().peak_bytes();
    assert!(peak <= BOUND, "{peak} bytes resident, expected at most {BOUND}");
}
