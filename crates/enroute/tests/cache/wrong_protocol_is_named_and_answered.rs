//! A client or an origin of another protocol is identified in the log, with a remedy, and the
//! client gets an error in its own protocol instead of running into its timeout: on every listener.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::cluster::cluster;
use crate::support::database::{Certificates, Database};
use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::{Cache, Enroute};
use crate::support::keyserver::Site;
use crate::support::message::Client;
use crate::support::origins::{Memcached, Mongo, Redis};
use crate::support::process::{PATIENCE, Process};
use crate::support::raw::Raw;
use crate::support::secured::{self, certificates, origin_tls};
use crate::support::state::Agent;

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

/// The reply to a client before it is closed; checks that the log names protocol and listener.
fn told(process: &Process, listener: SocketAddr, said: &[u8], named: &[&str]) -> Vec<u8> {
    let told = answer(listener, said);
    let listens = format!("={listener}");
    let parts = || named.iter().copied().chain([listens.as_str()]);
    let started = Instant::now();
    while !process.stderr().lines().any(|line| parts().all(|part| line.contains(part))) {
        assert!(started.elapsed() < PATIENCE, "no {named:?} of {listener}:\n{}", process.stderr());
        thread::sleep(Duration::from_millis(2));
    }
    told
}

/// The reply to a client until it is closed.
fn answer(listener: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut client = Raw::connect(listener);
    client.say(said);
    client.hear_bytes_until_end()
}

const PAGE: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nSET k bad";
/// Alert, version, length, fatal, unexpected_message.
const ALERT: [u8; 7] = [21, 3, 1, 0, 2, 2, 10];

/// Checks the answers of a Redis listener to TLS, HTTP and MongoDB.
fn is_named_where_redis_is_spoken(process: &Process, listener: SocketAddr) {
    assert_eq!(told(process, listener, &client_hello(), &["got TLS", "not support TLS"]), ALERT);
    let answer = told(process, listener, PAGE, &["got HTTP", "SECURITY ATTACK detected"]);
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    let answer = told(process, listener, &op_msg(), &["expected Redis (RESP), got MongoDB"]);
    assert_eq!(answer[8..12], 7_i32.to_le_bytes(), "it answers request 7");
    assert!(String::from_utf8_lossy(&answer).contains("errmsg"), "{answer:?}");
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

    let process = cache.process();
    is_named_where_redis_is_spoken(process, redis);
    assert_eq!(told(process, mongodb, &client_hello(), &["got TLS", "not support TLS"]), ALERT);
    let page = told(process, mongodb, PAGE, &["got HTTP", "SECURITY ATTACK detected"]);
    assert!(page.starts_with(b"HTTP/1.1 400 "), "{page:?}");
    let command = b"*1\r\n$4\r\nPING\r\n";
    let error = told(process, mongodb, command, &["expected MongoDB, got Redis"]);
    assert!(error.starts_with(b"-ERR "), "{error:?}");

    // Also after valid Redis input: a page may begin with anything.
    answer(redis, b"PING\r\nPOST / HTTP/1.1\r\nSET k bad\r\n");
    answer(redis, b"Host: evil.example\r\nSET k bad\r\n");
    witness.ask("GET k", "$1\r\nv\r\n");
}

/// Nothing listens at its origin: such a client is refused before the origin is contacted.
#[test]
fn of_a_client_of_memcached() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let cache = Cache::start("memcached", silent.local_addr().expect("bound"), "");
    let (process, listener) = (cache.process(), cache.address());
    assert_eq!(told(process, listener, &client_hello(), &["got TLS", "not support TLS"]), ALERT);
    let answer = told(process, listener, PAGE, &["got HTTP", "SECURITY ATTACK detected"]);
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    let answer = told(process, listener, &op_msg(), &["expected memcached, got MongoDB"]);
    assert!(String::from_utf8_lossy(&answer).contains("errmsg"), "{answer:?}");
    let command = b"*1\r\n$4\r\nPING\r\n";
    let answer = told(process, listener, command, &["expected memcached, got Redis"]);
    assert!(answer.starts_with(b"-ERR "), "{answer:?}");
    // `version` of the binary protocol, with the number 1, 2, 3, 4.
    let version = [&[0x80, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4][..], &[0; 8]].concat();
    let answer = told(process, listener, &version, &["got memcached's binary protocol"]);
    assert_eq!(
        (&answer[..2], answer[7], &answer[12..16]),
        (&[0x81, 0x0b][..], 0x83, &[1, 2, 3, 4][..])
    );
    assert!(
        String::from_utf8_lossy(&answer).contains("set the client to the text protocol"),
        "{answer:?}"
    );
}

#[test]
fn of_a_client_of_the_database() {
    let database = Database::start();
    is_named_where_redis_is_spoken(database.process(), database.address());
}

#[test]
fn of_a_client_of_the_state_agent() {
    let Some(redis) = cluster(&[]) else { return };
    let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
    let agent = Agent::start(&nodes);
    is_named_where_redis_is_spoken(agent.process(), agent.address());
}

#[test]
fn of_a_client_without_tls_of_a_database_with_it() {
    let Some(certificates) = Certificates::create() else { return };
    let [_, certificate, key] = certificates.paths();
    let database = Database::start_with(&["--tls-cert", &certificate, "--tls-key", &key]);
    let (process, address) = (database.process(), database.address());
    let error = told(process, address, b"*1\r\n$4\r\nPING\r\n", &["expected TLS, got Redis"]);
    assert!(error.starts_with(b"-ERR ") && error.ends_with(b"\r\n"), "{error:?}");
    assert!(answer(address, b"PING\r\n").starts_with(b"-ERR expected TLS"));
    let page = told(process, address, PAGE, &["expected TLS, got HTTP", "connect with TLS"]);
    assert!(page.starts_with(b"HTTP/1.1 400 "), "{page:?}");
    let reply = told(process, address, &op_msg(), &["expected TLS, got MongoDB"]);
    assert!(String::from_utf8_lossy(&reply).contains("errmsg"), "{reply:?}");
}

#[test]
fn of_a_client_with_tls_of_an_admin_endpoint() {
    let database = Database::start_with(&["--admin", "127.0.0.1:0"]);
    let admin = database.admin();
    let told = told(database.process(), admin, &client_hello(), &["expected HTTP, got TLS"]);
    assert_eq!(told, ALERT);
}

#[test]
fn of_a_client_with_tls_of_an_orchestrator() {
    let cgroup = TemporaryDirectory::create();
    fs::write(cgroup.path().join("memory.max"), "1").expect("a writable directory");
    let cgroup = cgroup.path().to_str().expect("a plain path");
    let listen = ["--listen", "127.0.0.1:0", "--max", "64MiB", "--cgroup", cgroup];
    let receiver = Enroute::start(&[&["db", "orchestrator"], &listen[..]].concat());
    let line = receiver.stderr_line("grants memory");
    let address = line.trim_start_matches("http://").split('/').next().expect("an address");
    let address = address.parse().expect("an address");
    let told = told(receiver.process(), address, &client_hello(), &["expected HTTP, got TLS"]);
    assert_eq!(told, ALERT);
}

#[test]
fn of_a_client_without_tls_of_a_key_server() {
    let Some(site) = Site::create() else { return };
    let server = site.serve(&[]);
    let page = told(server.process(), server.address, PAGE, &["expected TLS, got HTTP"]);
    assert!(page.starts_with(b"HTTP/1.1 400 "), "{page:?}");
}

#[test]
fn of_many_clients_in_few_lines() {
    const CLIENTS: usize = 40;
    let database = Database::start();
    let started = Instant::now();
    for _ in 0..CLIENTS {
        assert!(answer(database.address(), PAGE).starts_with(b"HTTP/1.1 400 "));
    }
    // One line every ten seconds.
    let due = 1 + started.elapsed().as_secs() as usize / 10;
    let log = database.process().stderr();
    let lines = log.lines().filter(|line| line.contains("got HTTP")).count();
    assert!((1..=due.min(CLIENTS / 2)).contains(&lines), "{lines} lines, not {due}:\n{log}");
}

/// The error that a client of `listener` gets, in its own protocol.
fn error(listener: &str, address: SocketAddr) -> String {
    if listener == "mongodb" {
        let reply = Client::connect(address).command(bson::doc! { "ping": 1, "$db": "admin" });
        assert!(reply.get_f64("ok").is_ok_and(|ok| ok == 0.0), "{reply}");
        return reply.get_str("errmsg").expect("a reason").to_owned();
    }
    let mut client = Raw::connect(address);
    let begins = match listener {
        "redis" => {
            client.command("PING");
            "-ERR enroute: "
        }
        _ => {
            client.say("get k\r\n");
            "SERVER_ERROR enroute: "
        }
    };
    let line = client.hear_line();
    assert!(line.starts_with(begins), "{line}");
    line
}

/// Checks that the origin's actual protocol is logged, and that no client waits for its timeout.
fn is_named_behind(listener: &str, origin: SocketAddr, tls: &str, named: &str) {
    let url = match (listener, tls) {
        (_, "") => format!("{listener}://{origin}"),
        ("mongodb", _) => format!("mongodb://{origin}/?tls=true"),
        _ => format!("rediss://{origin}"),
    };
    let toml =
        format!("[[listener]]\nlisten = \"{listener}://127.0.0.1:0\"\norigin = \"{url}\"\n{tls}\n");
    let cache = Enroute::start_with_config(&["cache"], &toml);
    let address = cache.listen_address(listener);
    // Also before it is known.
    error(listener, address);
    let line = cache.stderr_line("ERROR the origin");
    for part in [named, &origin.to_string(), &format!("listen={address}")] {
        assert!(line.contains(part), "{listener}: {line}");
    }
    let error = error(listener, address);
    assert!(error.contains(named), "{listener}: {error}");
}

#[test]
fn of_an_origin_of_another_protocol() {
    let (Some(redis), Some(memcached)) = (Redis::start(), Memcached::start()) else { return };
    is_named_behind("mongodb", redis.address(), "", "expected MongoDB, got Redis");
    is_named_behind("mongodb", memcached.address(), "", "expected MongoDB, got memcached");
    is_named_behind("memcached", redis.address(), "", "expected memcached, got Redis");
    is_named_behind("redis", memcached.address(), "", "expected Redis (RESP), got memcached");
    let Some(mongo) = Mongo::start_java() else { return };
    is_named_behind("redis", mongo.address(), "", "expected Redis (RESP), got MongoDB");
    is_named_behind("memcached", mongo.address(), "", "expected memcached, got MongoDB");
}

#[test]
fn of_an_origin_with_tls_where_none_is_configured() {
    let Some(workshop) = certificates() else { return };
    let Some((_redis, origin)) = secured::redis(&workshop, "localhost", false) else { return };
    is_named_behind("redis", origin, "", "expected Redis (RESP), got TLS");
    is_named_behind("mongodb", origin, "", "expected MongoDB, got TLS");
    is_named_behind("memcached", origin, "", "expected memcached, got TLS");
}

#[test]
fn of_an_origin_without_tls_where_it_is_configured() {
    let Some(workshop) = certificates() else { return };
    let tls = origin_tls(&workshop);
    let (Some(redis), Some(memcached)) = (Redis::start(), Memcached::start()) else { return };
    let Some(mongo) = Mongo::start_java() else { return };
    for listener in ["redis", "mongodb"] {
        is_named_behind(listener, redis.address(), &tls, "expected TLS, got Redis");
        is_named_behind(listener, mongo.address(), &tls, "expected TLS, got MongoDB");
        is_named_behind(listener, memcached.address(), &tls, "expected TLS, got memcached");
    }
}
