//! Malformed, truncated and oversized frames: one log line states the offset, the expected and the
//! found value; the connection is closed, a counter is incremented, and other connections are
//! unaffected.

use std::net::TcpListener;
use std::thread;

use crate::support::enroute::Cache;
use crate::support::origins::{Mongo, Redis};
use crate::support::raw::{CHECK, RIGHTS, Raw, accept_client};

#[test]
fn of_redis_clients() {
    let Some(redis) = Redis::start() else { return };
    let options = "[limits]\nframe_bytes_max = \"1MiB\"\n";
    // Input, reply to the client, log line.
    let hostile = [
        ("*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n", "expected"),
        ("*1\r\n+PING\r\n", "-ERR Protocol error: expected '$', got '+'\r\n", "got '+'"),
        ("*99999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n", "99999999999"),
        (
            "*1\r\n$999999999999\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
            "at most 536870912",
        ),
        ("*2\r\n$3\r\nGET\r\n$2000000\r\n", "-ERR Protocol error", "expected at most 1048576 "),
        ("*2\r\n$3\r\nGET\r\n$1\r\nkxx", "-ERR Protocol error", "expected CR LF"),
        ("GET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n", "at byte"),
    ];
    for (said, told, logged) in hostile {
        // A cache per case: a second line about the same cause would be rate-limited.
        let cache = Cache::start("redis", redis.address(), options);
        let mut witness = Raw::connect(cache.address());
        witness.ask("SET k v", "+OK\r\n");
        let mut client = Raw::connect(cache.address());
        let peer = client.stream().local_addr().expect("an address").to_string();
        client.say(said);
        assert!(client.hear_line().starts_with(told.trim_end()), "{said:?}");
        client.hear_end();
        let line = cache.log_line(&peer);
        assert!(line.contains(logged) && line.contains("at byte"), "{said:?}: {line}");
        let lines = cache.process().stderr();
        assert_eq!(lines.lines().filter(|line| line.contains(&peer)).count(), 1, "{lines}");
        witness.ask("GET k", "$1\r\nv\r\n");
        // Closed in the middle of a request: nothing is logged and nothing is kept.
        Raw::connect(cache.address()).say("*2\r\n$3\r\nGET\r\n$100\r\nab");
        let statistics = cache.statistics_once(|statistics| statistics["connections"] == 1.0);
        assert_eq!(statistics.get("refused-frames"), Some(&1.0), "{statistics:?}");
        witness.ask("GET k", "$1\r\nv\r\n");
    }
}

#[test]
fn of_mongodb_clients() {
    let Some(origin) = Mongo::start_java() else { return };
    let ping = || bson::doc! { "ping": 1, "$db": "admin" };
    let header = |length: i32, opcode: i32| {
        [length, 1, 0, opcode].iter().flat_map(|field| field.to_le_bytes()).collect::<Vec<u8>>()
    };
    let hostile = [
        (header(15, 2013), "15"),
        (header(-1, 2013), "-1"),
        (header(100_000_000, 2013), "at most 48000000 frame bytes"),
        ([header(21, 2013), vec![0, 0, 0, 0, 7]].concat(), "section"),
        ([header(26, 2013), vec![4, 0, 0, 0, 0, 5, 0, 0, 0, 0]].concat(), "flag"),
        ([header(26, 2013), vec![0, 0, 0, 0, 0, 99, 0, 0, 0, 0]].concat(), "a BSON document"),
        ([header(25, 2012), vec![0xdd, 7, 0, 0, 0xff, 0xff, 0xff, 0x7f, 2]].concat(), "2147483663"),
    ];
    for (said, logged) in &hostile {
        let cache = Cache::start("mongodb", origin.address(), "");
        let mut witness = crate::support::message::Client::connect(cache.address());
        witness.command(ping());
        let mut client = Raw::connect(cache.address());
        let peer = client.stream().local_addr().expect("an address").to_string();
        client.say(said);
        client.hear_end();
        let line = cache.log_line(&peer);
        assert!(line.contains(logged) && line.contains("at byte"), "{said:?}: {line}");
        witness.command(ping());
        let statistics = cache.statistics_once(|statistics| statistics["connections"] == 1.0);
        assert_eq!(statistics.get("refused-frames"), Some(&1.0), "{statistics:?}");
    }
}

#[test]
fn of_an_origin() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = origin.local_addr().expect("bound");
    let player = thread::spawn(move || {
        for reply in ["$3\r\nabcXX", "$-7\r\n", "hello\r\n", "*1\r\n>1\r\n"] {
            let mut connection = Raw::from(accept_client(&origin));
            connection.hear(format!("{CHECK}GET k\r\n"));
            connection.say(format!("{RIGHTS}{reply}"));
            connection.hear_bytes_until_end();
        }
    });
    for logged in ["CR LF", "-7", "the type byte of a reply", "a push"] {
        let cache = Cache::start("redis", address, "");
        let mut witness = Raw::connect(cache.address());
        let mut client = Raw::connect(cache.address());
        let peer = client.stream().local_addr().expect("an address").to_string();
        client.say("GET k\r\n");
        client.hear_bytes_until_end();
        let line = cache.log_line(&peer);
        assert!(line.contains(logged) && line.contains("from the origin"), "{line}");
        // It has sent nothing, so it has no connection to an origin that sends invalid data.
        assert!(witness.is_open());
    }
    player.join().expect("the origin heard what it expected");
}
