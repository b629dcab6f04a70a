//! A reply of the origin passes whatever its depth, and the connection stays usable.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::raw::Raw;

#[test]
fn replies_of_any_depth_pass_the_cache() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut client = Raw::connect(cache.address());
    for levels in [1, 128, 129, 1_000] {
        let code = format!("local t = 7 for i = 1, {levels} do t = {{t}} end return t");
        client.say(format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{code}\r\n$1\r\n0\r\n", code.len()));
        client.hear("*1\r\n".repeat(levels) + ":7\r\n");
        client.ask("PING", "+PONG\r\n");
    }
}
