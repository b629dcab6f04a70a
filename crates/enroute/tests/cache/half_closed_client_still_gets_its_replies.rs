//! A client that shuts down its sending side after its last request, as `nc` does, gets every
//! reply.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::raw::Raw;

#[test]
fn half_closed_client_still_gets_its_replies() {
    let Some(redis) = Redis::start() else { return };
    // Less room than requests: some are read only after others were answered.
    let options = "[limits]\npipeline_max = 8\nbuffered_bytes_max = \"64KiB\"\n";
    let cache = Cache::start("redis", redis.address(), options);
    let value = "v".repeat(1_000);
    let mut client = Raw::connect(cache.address());
    client.ask(&format!("SET k {value}"), "+OK\r\n");
    let reply = format!("$1000\r\n{value}\r\n");
    for command in ["GETRANGE k 0 -1\r\n", "GET k\r\n", "GET k\r\n"] {
        let mut client = Raw::connect(cache.address());
        client.say(command.repeat(1_000));
        client.say("ECHO last\r\n");
        client.end();
        client.hear(reply.repeat(1_000));
        client.hear("$4\r\nlast\r\n");
        client.hear_end();
    }
    drop(client);
    assert!(cache.hits() > 1_900.0, "{:?}", cache.statistics());
    cache.statistics_once(|statistics| statistics["connections"] == 0.0);
}
