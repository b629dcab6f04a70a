//! A client or an origin of another protocol is named as such in the log, with what to do about it, and
//! the client is answered in its own protocol instead of being left to its timeout.

mod support;

use std::net::{SocketAddr, TcpListener};

use support::enroute::Cache;
use support::message::Client;
use support::origins::{Mongo, Redis};
use support::raw::Raw;

fn op_msg() -> Vec<u8> {
    let mut body = Vec::new();
    bson::doc! { "ping": 1, "$db": "admin" }.to_writer(&mut body).expect("memory");
    let length = 21 + body.len() as i32;
    let mut frame: Vec<u8> =
        [length, 7, 0, 2013, 0].iter().flat_map(|field| field.to_le_bytes()).collect();
    frame.push(0);
    [frame, body].concat()
}

fn client_hello() -> Vec<u8> {
    [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[0x5a; 505]].concat()
}

/// What a client is told, after which it is let go; and that the log names what was found.
fn told(cache: &Cache, listener: SocketAddr, said: &[u8], named: &[&str]) -> Vec<u8> {
    let mut client = Raw::connect(listener);
    let peer = client.stream().local_addr().expect("an address").to_string();
    client.say(said);
    let told = client.hear_bytes_until_end();
    let line = cache.log_line(&peer);
    let listens = listener.to_string();
    for part in named.iter().copied().chain([listens.as_str()]) {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
    told
}

#[test]
fn of_a_client() {
    let Some(origin) = Redis::start() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = silent.local_addr().expect("bound");
    let listeners = [("redis", origin.address(), ""), ("mongodb", silent, "")];
    let cache = Cache::start_all(&listeners, "");
    let [redis, mongodb] = *cache.addresses() else { panic!("two listeners") };
    let mut witness = Raw::connect(redis);
    witness.ask("SET k v", "+OK\r\n");

    let alert = [21, 3, 1, 0, 2, 2, 10];
    for listener in [redis, mongodb] {
        assert_eq!(told(&cache, listener, &client_hello(), &["got TLS", "no TLS"]), alert);
        let page = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nSET k bad";
        let answer = told(&cache, listener, page, &["got HTTP", "SECURITY ATTACK detected"]);
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    }
    let answer = told(&cache, mongodb, b"*1\r\n$4\r\nPING\r\n", &["expected MongoDB, got Redis"]);
    assert!(answer.starts_with(b"-ERR "), "{answer:?}");
    let answer = told(&cache, redis, &op_msg(), &["expected Redis (RESP), got MongoDB"]);
    assert_eq!(answer[8..12], 7_i32.to_le_bytes(), "it answers request 7");
    assert!(String::from_utf8_lossy(&answer).contains("errmsg"), "{answer:?}");

    // Behind what is Redis's, too: a page may begin with anything.
    let page = b"PING\r\nPOST / HTTP/1.1\r\nSET k bad\r\n";
    told(&cache, redis, page, &["got HTTP"]);
    told(&cache, redis, b"Host: evil.example\r\nSET k bad\r\n", &["got HTTP"]);
    witness.ask("GET k", "$1\r\nv\r\n");
}

#[test]
fn a_redis_behind_a_mongodb_listener() {
    let Some(origin) = Redis::start() else { return };
    let cache = Cache::start("mongodb", origin.address(), "");
    let mut client = Client::connect(cache.address());
    let reply = client.command(bson::doc! { "ping": 1, "$db": "admin" });
    assert!(reply.get_f64("ok").is_ok_and(|ok| ok == 0.0), "{reply}");
    let reason = reply.get_str("errmsg").expect("a reason");
    assert!(reason.contains("expected MongoDB, got Redis"), "{reason}");
    let line = cache.log_line("speaks another protocol");
    for part in [origin.address(), cache.address()] {
        assert!(line.contains(&part.to_string()), "{line}");
    }
}

#[test]
fn a_mongodb_behind_a_redis_listener() {
    let Some(origin) = Mongo::start_java() else { return };
    let cache = Cache::start("redis", origin.address(), "");
    cache.log_line("speaks another protocol");
    let mut client = Raw::connect(cache.address());
    client.command("PING");
    let line = client.hear_line();
    assert!(line.starts_with("-ERR enroute: ") && line.contains("got MongoDB"), "{line}");
}
