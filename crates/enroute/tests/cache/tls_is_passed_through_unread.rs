//! With `pass_through`, the clients' TLS is terminated at the origin: clients verify the origin's
//! certificate, nothing is cached, and each connection is counted.

use crate::support::{
    enroute::{Cache, Enroute},
    origins::Redis,
    raw::Raw,
    secured::{Secured, certificates, redis_with, table, trusting},
};

const OPEN: &str = "open.example";
const SECRET: &str = "secret.example";

#[test]
fn a_server_name_can_lead_to_an_origin_that_decrypts() {
    let Some(workshop) = certificates() else { return };
    // The cache does not know the authority of the origin.
    workshop.certificate("own", "ec");
    workshop.signed(SECRET, "own");
    workshop.signed(OPEN, "authority");
    let options = ["--tls-auth-clients", "no"];
    let Some((_origin, address)) = redis_with(&workshop, SECRET, &options) else { return };
    let Some(cached) = Redis::start() else { return };
    let files = [("cert", "open.example.pem"), ("key", "open.example.key")];
    let open = table(&workshop, "tls", &files, &format!("names = [{OPEN:?}]"));
    let secret = format!("tls = {{ pass_through = true, names = [{SECRET:?}] }}\n");
    let listeners = [
        ("redis", cached.address(), &open[..]),
        ("rediss", address, &secret[..]),
        ("rediss", address, "tls = { pass_through = true }\n"),
    ];
    // Both listeners of the origin log the same line.
    let cache = Cache::start_all(&listeners[..2], "");
    let (own, authority) =
        (trusting(&workshop, "own", None), trusting(&workshop, "authority", None));
    let connect = |name, config| Secured::connect_to(name, cache.address(), config);
    assert!(connect(SECRET, &authority).is_err(), "the origin presents its own certificate");
    let mut client = connect(SECRET, &own).expect("a handshake with the origin");
    client.ask("SET key secret", "+OK\r\n");
    let mut other = connect(OPEN, &authority).expect("a handshake with the cache");
    other.ask("SET key open", "+OK\r\n");
    for _ in 0..3 {
        client.ask("GET key", "$6\r\nsecret\r\n");
        other.ask("GET key", "$4\r\nopen\r\n");
    }
    let long = "x".repeat(1_000_000);
    client.ask(&format!("SET long {long}"), "+OK\r\n");
    client.ask("GET long", &format!("$1000000\r\n{long}\r\n"));
    let statistics = cache.statistics();
    assert_eq!(statistics["why-not.pass-through"], 2.0, "{statistics:?}");
    assert!(statistics["hits"] <= 3.0, "{statistics:?}");
    drop(client);
    drop(other);
    cache.statistics_once(|statistics| statistics["connections"] == 0.0);
    // No data of a client without TLS is relayed.
    let mut plain = Raw::connect(cache.address());
    plain.say("*1\r\n$4\r\nPING\r\n");
    let answer = plain.hear_bytes_until_end();
    assert!(!answer.starts_with(b"+PONG"), "{answer:?}");

    let every = Cache::start_all(&listeners[2..], "");
    let mut client = Secured::connect_to(SECRET, every.address(), &own).expect("a handshake");
    client.ask("GET key", "$6\r\nsecret\r\n");
    assert_eq!(every.statistics()["why-not.pass-through"], 1.0);
    assert!(every.terminate().status.success(), "a relayed client does not delay the shutdown");
}

#[test]
fn mistakes_with_pass_through_are_named() {
    for (tls, expected) in [
        ("tls = {}", "expected `cert` and `key`, or `pass_through = true`"),
        ("tls = { pass_through = true, cert = \"a\" }", "presents no certificate"),
        ("tls = { pass_through = true }\nfeed = {}", "`pass_through` cannot be combined"),
    ] {
        let text = format!(
            "[[listener]]\nlisten = \"rediss://127.0.0.1:1\"\norigin = \"rediss://db\"\n{tls}\n"
        );
        let ended = Enroute::start_with_config(&["cache"], &text).wait();
        assert!(!ended.status.success() && ended.stderr.contains(expected), "{}", ended.stderr);
        assert!(ended.stderr.contains("enroute.toml:4:7"), "{}", ended.stderr);
    }
}
