//! Valid requests that are pipelined before a malformed one are executed and answered, then the
//! error is sent, then the connection is closed: for each listener byte for byte as by the server
//! of the protocol.

use std::net::SocketAddr;

use crate::support::cluster::cluster;
use crate::support::database::Database;
use crate::support::enroute::Cache;
use crate::support::message::{Client, Message};
use crate::support::origins::{Memcached, Mongo, Redis};
use crate::support::raw::Raw;
use crate::support::state::Agent;

/// Valid requests to Redis.
const VALID: &str =
    "SET k 1\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$1\r\n7\r\n";
const MALFORMED: [&str; 6] = [
    "*1\r\n$x\r\n",
    "*-5x\r\n",
    "*1\r\nPING\r\n",
    "*2\r\n$3\r\nGET\r\n$999999999999\r\n",
    "SET \"k\r\n",
    "*1\r\n$-7\r\n",
];
/// Never executed.
const BEHIND: &str = "SET k 9\r\n";

/// All output after `said` was sent.
fn told(address: SocketAddr, said: &str) -> String {
    let mut client = Raw::connect(address);
    client.say(said);
    String::from_utf8_lossy(&client.hear_bytes_until_end()).into_owned()
}

/// Compares a listener that speaks RESP with redis-server.
fn are_answered(listener: SocketAddr) {
    let Some(direct) = Redis::start() else { return };
    for malformed in MALFORMED {
        for valid in ["", VALID, "GET k\r\n", "MULTI\r\nSET k 5\r\n"] {
            let said = format!("{valid}{malformed}{BEHIND}");
            assert_eq!(told(listener, &said), told(direct.address(), &said), "{said:?}");
            let (found, expected) = (told(listener, "GET k\r\nQUIT\r\n"), "GET k\r\nQUIT\r\n");
            assert_eq!(found, told(direct.address(), expected), "{said:?}");
        }
    }
}

#[test]
fn by_the_cache_of_redis() {
    let Some(origin) = Redis::start() else { return };
    are_answered(Cache::start("redis", origin.address(), "").address());
}

#[test]
fn by_the_database() {
    are_answered(Database::start().address());
}

#[test]
fn by_the_state_agent() {
    let Some(redis) = cluster(&[]) else { return };
    let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
    are_answered(Agent::start(&nodes).address());
}

/// memcached continues after a bad data chunk, and its rest may be any command; the cache closes.
#[test]
fn by_the_cache_of_memcached() {
    let (Some(origin), Some(direct)) = (Memcached::start(), Memcached::start()) else { return };
    let cache = Cache::start("memcached", origin.address(), "");
    let valid = "set k 0 0 1\r\nx\r\ndelete other\r\nappend k 0 0 1\r\ny\r\nget k\r\n";
    for malformed in ["set k 0 0 1\r\nxyz\r\n", "set k 0 x 1\r\n"] {
        let said = format!("{valid}{malformed}");
        let expected = told(direct.address(), &format!("{said}quit\r\n"));
        // Without memcached's reply to the rest of the chunk.
        let expected = expected.trim_end_matches("ERROR\r\n").to_owned();
        assert_eq!(told(cache.address(), &format!("{said}set k 0 0 1\r\nz\r\n")), expected);
        let read = "get k\r\nquit\r\n";
        assert_eq!(told(cache.address(), read), told(direct.address(), read));
    }
}

/// MongoDB closes without a reply to a malformed request.
#[test]
fn by_the_cache_of_mongodb() {
    let Some(origin) = Mongo::start_java() else { return };
    let cache = Cache::start("mongodb", origin.address(), "");
    let insert =
        |id: i32| bson::doc! { "insert": "users", "documents": [{ "_id": id }], "$db": "shop" };
    let mut frames = Vec::new();
    for id in [1, 2] {
        Message::new(id, insert(id)).write(&mut frames).expect("memory");
    }
    let [length, number, answers] = [21_i32, 3, 0].map(i32::to_le_bytes);
    // Its section has an unknown kind.
    let malformed =
        [&length[..], &number, &answers, &2013_i32.to_le_bytes(), &[0; 4], &[9]].concat();
    let mut client = Raw::connect(cache.address());
    client.say([frames, malformed].concat());
    let heard = client.hear_bytes_until_end();
    let mut heard = &heard[..];
    for _ in [1, 2] {
        let reply = Message::read(&mut heard).expect("a reply").expect("a reply");
        assert_eq!(reply.body.get_i32("n").ok(), Some(1), "{:?}", reply.body);
    }
    assert_eq!(heard, b"", "and nothing else");
    let found = bson::doc! { "find": "users", "filter": {}, "$db": "shop" };
    let found = Client::connect(cache.address()).command(found);
    let batch = found.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    assert_eq!(batch.map(Vec::len).ok(), Some(2), "{found}");
}
