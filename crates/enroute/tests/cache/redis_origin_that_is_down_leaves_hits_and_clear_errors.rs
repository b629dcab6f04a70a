//! While a Redis origin is down, stored values are served on connections that have proven their
//! rights, until their authorization lease elapses; everything else is refused at once with an
//! error of the protocol, and nothing has to be restarted afterwards.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::raw::Raw;

const LONG: &str = "[storage]\nauthorization_lease = \"60min\"\n";
const UNREACHABLE: &str = "-ERR enroute: the origin cannot be reached\r\n";

/// Waits until the origin has a blocked client.
fn until_one_is_blocked(redis: &Redis) {
    let mut direct = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let clients = |direct: &mut redis::Connection| -> String {
        redis::cmd("INFO").arg("clients").query(direct).unwrap()
    };
    while !clients(&mut direct).contains("blocked_clients:1") {
        std::thread::yield_now();
    }
}

#[test]
fn redis_origin_that_is_down_leaves_hits_and_clear_errors() {
    let Some(mut redis) = Redis::start_with(&["--appendonly", "yes"]) else { return };
    let cache = Cache::start("redis", redis.address(), LONG);
    let mut old = Raw::connect(cache.address());
    let mut idle = Raw::connect(cache.address());
    idle.ask("PING", "+PONG\r\n");
    old.ask("SET k v", "+OK\r\n");
    while cache.hits() < 1.0 {
        old.ask("GET k", "$1\r\nv\r\n");
    }
    let mut blocked = Raw::connect(cache.address());
    blocked.command("BLPOP queue 0");
    until_one_is_blocked(&redis);
    redis.bring_down();

    // A client whose reply cannot arrive is closed.
    blocked.hear_end();
    let mut new = Raw::connect(cache.address());
    // The rights of the new client cannot be determined.
    new.ask("GET k", UNREACHABLE);
    new.ask("SET other w", UNREACHABLE);
    for client in [&mut old, &mut idle] {
        client.ask("GET k", "$1\r\nv\r\n");
        client.ask("GET missing", UNREACHABLE);
        client.ask("SET other w", UNREACHABLE);
        client.ask("GET k", "$1\r\nv\r\n");
        client.ask("MGET k k", "*2\r\n$1\r\nv\r\n$1\r\nv\r\n");
        // Replies and errors keep their order.
        client.say("GET k\r\nGET missing\r\nGET k\r\nPING\r\nGET k\r\n");
        let value = "$1\r\nv\r\n";
        client.hear(format!("{value}{UNREACHABLE}{value}{UNREACHABLE}{value}"));
    }
    // State that exists at no origin cannot be kept.
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
fn hits_end_with_the_lease() {
    let Some(mut redis) = Redis::start() else { return };
    let options = "[storage]\nauthorization_lease = \"300ms\"\n";
    let cache = Cache::start("redis", redis.address(), options);
    let mut client = Raw::connect(cache.address());
    client.ask("SET k v", "+OK\r\n");
    while cache.hits() < 1.0 {
        client.ask("GET k", "$1\r\nv\r\n");
    }
    redis.bring_down();
    let started = std::time::Instant::now();
    loop {
        client.command("GET k");
        if client.hear_line() == UNREACHABLE {
            break;
        }
        client.hear("v\r\n");
        assert!(started.elapsed() < crate::support::process::PATIENCE, "the hits never end");
    }
    // There are no hits afterwards.
    client.ask("GET k", UNREACHABLE);
}

/// Current clients begin with HELLO 3. The cache repeats the origin's reply, and sends HELLO 3
/// first on a connection to the origin that is made later.
#[test]
fn new_resp3_clients_are_greeted_and_later_connected() {
    let Some(mut redis) = Redis::start_with(&["--appendonly", "yes"]) else { return };
    let cache = Cache::start("redis", redis.address(), LONG);
    let url = format!("redis://{}/?protocol=resp3", cache.address());
    let connect = || redis::Client::open(url.as_str()).expect("a URL").get_connection();
    let mut old = connect().expect("greeted by the origin");
    let set = |connection: &mut redis::Connection, key: &str| -> redis::RedisResult<()> {
        redis::cmd("HSET").arg(key).arg("f").arg("v").query(connection)
    };
    let all = |connection: &mut redis::Connection| -> redis::RedisResult<redis::Value> {
        redis::cmd("HGETALL").arg("h").query(connection)
    };
    set(&mut old, "h").expect("written");
    while cache.hits() < 1.0 {
        all(&mut old).expect("read");
    }
    let map = all(&mut old).expect("read");
    assert!(matches!(map, redis::Value::Map(_)), "{map:?} is not RESP3");
    redis.bring_down();

    let mut new = connect().expect("greeted by the cache");
    assert_eq!(all(&mut old).expect("stored"), map);
    all(&mut new).expect_err("its rights are unknown");
    for connection in [&mut old, &mut new] {
        let refused = set(connection, "other").expect_err("nowhere to write");
        assert!(refused.to_string().contains("the origin cannot be reached"), "{refused}");
    }
    redis.bring_up();
    for connection in [&mut old, &mut new] {
        set(connection, "h").expect("written");
        assert_eq!(all(connection).expect("read"), map, "not in RESP3 any more");
        assert_eq!(all(connection).expect("read"), map);
    }
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
