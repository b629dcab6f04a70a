//! With TLS between client and cache, and between cache and origin, everything works as without:
//! hits, writes that invalidate, the feed, long values, pipelines, unchanged clients.

use std::time::Instant;

use redis::Commands;

use crate::support::{
    enroute::Cache,
    process::PATIENCE,
    secured::{Secured, certificates, origin_tls, redis, redis_cli, tls, trusting},
};

#[test]
fn redis_with_tls_on_both_sides_and_a_feed() {
    let Some(workshop) = certificates() else { return };
    let Some((origin, address)) = redis(&workshop, "localhost", false) else { return };
    let options = [&tls(&workshop), &origin_tls(&workshop), "feed = {}\n"].concat();
    let cache = Cache::start_all(&[("rediss", address, &options)], "");
    let cli = |words: &[&str]| redis_cli(&workshop, cache.address(), words);
    let Some(said) = cli(&["set", "key", "first"]) else { return };
    assert_eq!(said, "OK");
    let config = trusting(&workshop, "authority", None);
    let mut client = Secured::connect(cache.address(), &config).expect("a handshake");
    let started = Instant::now();
    // Nothing is stored before the feed is established.
    while cache.hits() < 1.0 {
        assert!(started.elapsed() < PATIENCE, "{}", cache.process().stderr());
        client.ask("GET key", "$5\r\nfirst\r\n");
    }
    assert_eq!(cli(&["set", "key", "second"]).as_deref(), Some("OK"));
    assert_eq!(cli(&["get", "key"]).as_deref(), Some("second"), "a write through the cache");
    client.ask("GET key", "$6\r\nsecond\r\n");
    let _: () = origin.connection().set("key", "around").expect("the origin is up");
    let started = Instant::now();
    while client.try_ask("GET key", "$6\r\nsecond\r\n").expect("open") != "$6\r\naround\r\n" {
        assert!(started.elapsed() < PATIENCE, "the write around the cache is not seen");
    }

    // Longer than a TLS record, than the TLS buffers and than the socket buffer.
    let length = 3_000_000;
    assert_eq!(cli(&["setrange", "long", "2999999", "x"]).as_deref(), Some("3000000"));
    let reply = format!("${length}\r\n{}x\r\n", "\0".repeat(length - 1));
    for _ in 0..3 {
        client.ask("GET long", &reply);
    }
    let (gets, replies) = (vec!["GET key"; 5_000].join("\r\n"), "$6\r\naround\r\n".repeat(5_000));
    client.ask(&gets, &replies);
    let statistics = cache.statistics();
    assert!(statistics["hits"] > 4_000.0, "{statistics:?}");
    assert!(cache.terminate().status.success());
}
