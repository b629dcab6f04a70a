//! Before the origin accepts a login, nothing that a client sends drops entries, revokes leases or
//! closes scopes: stored answers remain, and later misses are stored.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::raw::Raw;

const ITEMS: usize = 500;

fn pipeline(client: &mut Raw, command: impl Fn(usize) -> String, reply: impl Fn(usize) -> String) {
    let all = |text: &dyn Fn(usize) -> String| (0..ITEMS).map(text).collect::<String>();
    client.say(all(&|item| format!("{}\r\n", command(item))));
    client.hear(all(&reply));
}

fn read_all(client: &mut Raw) {
    pipeline(
        client,
        |item| format!("GET k{item}"),
        |item| {
            let value = format!("v{item}");
            format!("${}\r\n{value}\r\n", value.len())
        },
    );
}

#[test]
fn strangers_touch_nothing_in_the_redis_cache() {
    let Some(redis) = Redis::start_with(&["--requirepass", "secret"]) else { return };
    let options = "[storage]\nauthorization_lease = \"60min\"\n";
    let cache = Cache::start("redis", redis.address(), options);
    let mut known = Raw::connect(cache.address());
    known.ask("AUTH secret", "+OK\r\n");
    pipeline(&mut known, |item| format!("SET k{item} v{item}"), |_| "+OK\r\n".to_owned());
    while cache.statistics()["items"] < ITEMS as f64 {
        read_all(&mut known);
    }
    for conversation in [
        "FLUSHALL\r\n",
        "FOO\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        "CLIENT REPLY OFF\r\nFOO\r\nFLUSHALL\r\n",
        "CLIENT REPLY SKIP\r\nFOO\r\nFLUSHALL\r\n",
        "SUBSCRIBE news\r\nFOO\r\nFLUSHALL\r\n",
        "MONITOR\r\nFLUSHALL\r\n",
        "MULTI\r\nFLUSHALL\r\nFOO\r\nEXEC\r\n",
        "MULTI\r\nAUTH wrong\r\nFOO\r\nFLUSHALL\r\n",
        "AUTH wrong\r\nFOO\r\nFLUSHALL\r\n",
        "HELLO 3 AUTH default wrong\r\nFOO\r\nFLUSHALL\r\n",
        "RESET\r\nFLUSHALL\r\nFOO\r\n",
        "RESET\r\nMULTI\r\nFLUSHALL\r\nEXEC\r\n",
        "SELECT 0\r\nFLUSHALL\r\nSET k0 w\r\nEVAL x 0\r\n",
        "ACL SETUSER default nopass\r\nCONFIG SET requirepass x\r\nSCRIPT FLUSH\r\n",
        "ASKING\r\nSET k0 w\r\nCLIENT TRACKING ON\r\nFLUSHDB\r\n",
        "GET k0\r\nFLUSHALL\r\nGET k0\r\nFOO\r\n",
    ] {
        // One client waits for its replies, one disconnects at once.
        let mut waits = Raw::connect(cache.address());
        waits.say(conversation);
        waits.say("PING\r\n");
        waits.end();
        waits.hear_bytes_until_end();
        Raw::connect(cache.address()).say(conversation);
        let hits = cache.hits();
        read_all(&mut known);
        cache.statistics_once(|statistics| statistics["hits"] == hits + ITEMS as f64);
        // A miss is stored as usual.
        known.ask("SET k0 v0", "+OK\r\n");
        let mut number = 0;
        while cache.hits() == hits + ITEMS as f64 {
            known.ask("GET k0", "$2\r\nv0\r\n");
            number += 1;
            assert!(number < 1_000, "nothing is stored after {conversation:?}");
        }
    }
}
