//! While a Redis origin is down, what is stored is answered on old and new connections, what is not
//! is refused at once in the protocol's own words, and nothing has to be restarted afterwards.

mod support;

use support::enroute::Cache;
use support::origins::Redis;
use support::raw::Raw;

const UNREACHABLE: &str = "-ERR enroute: the origin cannot be reached\r\n";

#[test]
fn redis_origin_that_is_down_leaves_hits_and_clear_errors() {
    let Some(mut redis) = Redis::start_with(&["--appendonly", "yes"]) else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut old = Raw::connect(cache.address());
    let mut idle = Raw::connect(cache.address());
    idle.ask("PING", "+PONG\r\n");
    old.ask("SET k v", "+OK\r\n");
    while cache.hits() < 1.0 {
        old.ask("GET k", "$1\r\nv\r\n");
    }
    let mut blocked = Raw::connect(cache.address());
    blocked.command("BLPOP queue 0");
    old.ask("GET k", "$1\r\nv\r\n");
    redis.bring_down();

    // Whoever waits for an answer that will not come is let go.
    blocked.hear_end();
    let mut new = Raw::connect(cache.address());
    for client in [&mut old, &mut idle, &mut new] {
        client.ask("GET k", "$1\r\nv\r\n");
        client.ask("GET missing", UNREACHABLE);
        client.ask("SET other w", UNREACHABLE);
        client.ask("GET k", "$1\r\nv\r\n");
        client.ask("MGET k k", "*2\r\n$1\r\nv\r\n$1\r\nv\r\n");
        // Answers and errors keep their order.
        client.say("GET k\r\nGET missing\r\nGET k\r\nPING\r\nGET k\r\n");
        let value = "$1\r\nv\r\n";
        client.hear(format!("{value}{UNREACHABLE}{value}{UNREACHABLE}{value}"));
    }
    // State that no origin knows of cannot be kept.
    for state in ["MULTI", "WATCH k", "SUBSCRIBE news"] {
        let mut stateful = Raw::connect(cache.address());
        stateful.ask(state, UNREACHABLE);
        stateful.hear_end();
    }

    redis.bring_up();
    for client in [&mut old, &mut idle, &mut new] {
        client.ask("GET missing", "$-1\r\n");
        client.ask("SET k v", "+OK\r\n");
        client.ask("GET k", "$1\r\nv\r\n");
    }
    let line = cache.log_line("cannot reach the origin");
    assert!(line.contains(&redis.address().to_string()), "{line}");
}

#[test]
fn more_requests_than_fit_are_all_refused() {
    let Some(mut redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "[limits]\npipeline_max = 8\n");
    redis.bring_down();
    let mut client = Raw::connect(cache.address());
    client.say("GET missing\r\n".repeat(1_000));
    client.hear(UNREACHABLE.repeat(1_000));
}
