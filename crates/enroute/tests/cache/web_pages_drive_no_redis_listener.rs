//! A browser can send requests to a local port on behalf of any web page: HTTP with text as the
//! body. `enroute db`, `enroute state agent` and `enroute cache` execute none of it; as
//! redis-server does, they close the connection, and their log names both addresses.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::support::{
    cluster::{cluster, connection},
    database::Database,
    enroute::Cache,
    origins::Redis,
    process::{PATIENCE, Process},
    state::Agent,
};
use redis::cmd;

/// Request heads that a page can make a browser send without CORS permission.
const HEADS: [&str; 3] = [
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nOrigin: https://evil.example\r\n",
    "POST /x HTTP/1.0\r\nContent-Type: text/plain\r\n",
    // A form, sent by a browser with another order of headers.
    "PUT / HTTP/1.1\r\nUser-Agent: any\r\nHost: localhost\r\n",
];
const BODY: &str = "\r\nSET k changed\r\nCONFIG SET timeout 77\r\nFLUSHALL\r\nEVAL \"return redis.call('set','k','x')\" 0\r\nQUIT\r\n";

/// Sends a request and reads the reply to its end.
fn send(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all([head, BODY].concat().as_bytes()).expect("it reads");
    let mut heard = Vec::new();
    // Unread bytes may turn the close into a reset.
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

fn is_named(process: &Process, listener: SocketAddr) {
    let line = process.stderr_line("got HTTP").expect("it is logged");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    assert!(line.contains(&listener.to_string()), "{line}");
    assert!(line.contains("require a password"), "{line}");
}

#[test]
fn the_database_executes_nothing_of_an_http_request() {
    let database = Database::start();
    let mut client = database.connection();
    cmd("SET").arg("k").arg("kept").exec(&mut client).expect("stored");
    for head in HEADS {
        let heard = send(database.address(), head);
        assert!(!heard.contains("+OK"), "{head}: {heard}");
        let value: String = cmd("GET").arg("k").query(&mut client).expect("an answer");
        assert_eq!(value, "kept", "{head}");
        let timeout: Vec<String> =
            cmd("CONFIG").arg("GET").arg("timeout").query(&mut client).expect("an answer");
        assert_eq!(timeout, ["timeout", "0"], "{head}");
    }
    is_named(database.process(), database.address());
    // As redis-server.
    let Some(redis) = Redis::start() else { return };
    for head in HEADS {
        assert!(!send(redis.address(), head).contains("+OK"), "{head}");
    }
}

#[test]
fn the_agent_passes_on_nothing_of_an_http_request() {
    let Some(redis) = cluster(&[]) else { return };
    let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
    let agent = Agent::start(&nodes);
    let mut client = connection(agent.address());
    cmd("SET").arg("k").arg("kept").exec(&mut client).expect("stored");
    for head in HEADS {
        let heard = send(agent.address(), head);
        assert!(!heard.contains("+OK"), "{head}: {heard}");
        let value: String = cmd("GET").arg("k").query(&mut client).expect("an answer");
        assert_eq!(value, "kept", "{head}");
    }
    is_named(agent.process(), agent.address());
}

#[test]
fn the_cache_passes_on_nothing_of_an_http_request() {
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let mut client = cache.redis();
    cmd("SET").arg("k").arg("kept").exec(&mut client).expect("stored");
    for head in HEADS {
        let heard = send(cache.address(), head);
        assert!(!heard.contains("+OK"), "{head}: {heard}");
        let value: String = cmd("GET").arg("k").query(&mut client).expect("an answer");
        assert_eq!(value, "kept", "{head}");
    }
    is_named(cache.process(), cache.address());
}
