//! Listeners with the same address are selected by the server name (SNI) that a client requests; a
//! client that requests none of their names reaches no origin.

use std::{
    io::Write,
    net::TcpStream,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use redis::Commands;
use rustls::{ClientConnection, pki_types::ServerName};

use crate::support::{
    directory::python,
    enroute::{Cache, Enroute},
    origins::{Mongo, Redis},
    process::PATIENCE,
    raw::Raw,
    secured::{Secured, certificates, table, trusting},
    workshop::Workshop,
};

const FIRST: &str = "first.example";
const SECOND: &str = "second.example";

/// TLS of a listener for the clients of `name`, with its certificate.
fn named(workshop: &Workshop, name: &str) -> String {
    workshop.signed(name, "authority");
    options(workshop, name, name)
}

/// As `named`, with the certificate `certificate`.
fn options(workshop: &Workshop, certificate: &str, name: &str) -> String {
    let (certificate, key) = (format!("{certificate}.pem"), format!("{certificate}.key"));
    let files = [("cert", &certificate[..]), ("key", &key[..])];
    table(workshop, "tls", &files, &format!("names = [{name:?}]"))
}

/// Two origins behind one port, the name of the second written in capitals.
fn two(workshop: &Workshop) -> Option<(Cache, [Redis; 2])> {
    let origins = [Redis::start()?, Redis::start()?];
    let [one, two] = [named(workshop, FIRST), named(workshop, SECOND)];
    let two = two.replace(&format!("[{SECOND:?}]"), "[\"SECOND.Example\"]");
    let [first, second] = &origins;
    let listeners = [("redis", first.address(), &one[..]), ("redis", second.address(), &two[..])];
    let cache = Cache::start_all(&listeners, "");
    assert_eq!(cache.addresses()[0], cache.addresses()[1], "one port");
    Some((cache, origins))
}

#[test]
fn each_name_is_answered_from_its_own_origin_and_its_own_entries() {
    let Some(workshop) = certificates() else { return };
    let Some((cache, origins)) = two(&workshop) else { return };
    let config = trusting(&workshop, "authority", None);
    let connect = |name| Secured::connect_to(name, cache.address(), &config).expect("a handshake");
    // More clients than workers, and than one listener accepts in a row.
    let mut clients: Vec<_> =
        (0..8).flat_map(|_| [FIRST, SECOND]).map(|name| (name, connect(name))).collect();
    for (name, client) in &mut clients[..2] {
        client.ask(&format!("SET name {name}"), "+OK\r\n");
    }
    for _ in 0..4 {
        for (name, client) in &mut clients {
            client.ask("GET name", &format!("${}\r\n{name}\r\n", name.len()));
        }
    }
    for (origin, name) in origins.iter().zip([FIRST, SECOND]) {
        let found: String = origin.connection().get("name").expect("the origin is up");
        assert_eq!(found, name);
    }
    let hits = cache.hits();
    assert!(hits >= 32.0, "{hits} hits");
}

#[test]
fn a_name_is_the_same_in_capitals() {
    let Some(workshop) = certificates() else { return };
    let Some((cache, origins)) = two(&workshop) else { return };
    for ((origin, name), requested) in
        origins.iter().zip([FIRST, SECOND]).zip(["FIRST.Example", "seconD.exAmple"])
    {
        let _: () = origin.connection().set("name", name).expect("the origin is up");
        let said = workshop.sh(&format!(
            "printf 'GET name\\r\\nQUIT\\r\\n' | openssl s_client -quiet -verify_return_error \
             -CAfile authority.pem -verify_hostname {name} -servername {requested} -connect {}",
            cache.address()
        ));
        assert_eq!(said, format!("${}\r\n{name}\r\n+OK\r\n", name.len()), "{requested}");
    }
}

#[test]
fn another_name_is_refused_and_the_log_names_it() {
    let Some(workshop) = certificates() else { return };
    let Some((cache, _origins)) = two(&workshop) else { return };
    let config = trusting(&workshop, "authority", None);
    for name in ["third.example", "127.0.0.1"] {
        let refused = Secured::connect_to(name, cache.address(), &config);
        let refused = refused.err().expect("a refusal").to_string();
        assert!(refused.contains("UnrecognisedName"), "{name}: {refused}");
    }
    let line = cache.log_line("expected a server name (SNI)");
    assert!(line.contains("found: \"third.example\""), "{line}");
    assert!(line.contains(&cache.address().to_string()), "{line}");
    let mut plain = Raw::connect(cache.address());
    plain.say("*1\r\n$4\r\nPING\r\n");
    let answer = plain.hear_bytes_until_end();
    assert!(answer.starts_with(b"-ERR expected TLS, got Redis"), "{answer:?}");
    // No connection remains.
    cache.statistics_once(|statistics| statistics["connections"] == 0.0);
}

#[test]
fn a_first_message_may_come_in_parts() {
    let Some(workshop) = certificates() else { return };
    let Some((cache, _origins)) = two(&workshop) else { return };
    let config = trusting(&workshop, "authority", None);
    let name = ServerName::try_from(SECOND).expect("a name");
    let mut tls = ClientConnection::new(config, name).expect("a client");
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).expect("a buffer");
    let mut stream = TcpStream::connect(cache.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_nodelay(true).expect("an option");
    for part in [&hello[..1], &hello[1..40], &hello[40..]] {
        stream.write_all(part).expect("a reader");
        thread::sleep(Duration::from_millis(20));
    }
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).expect("a handshake");
    }
}

#[test]
fn certificates_are_renewed_for_each_name() {
    let Some(workshop) = certificates() else { return };
    let Some((cache, _origins)) = two(&workshop) else { return };
    let [old, new] = ["authority", "renewed"].map(|authority| {
        if authority == "renewed" {
            workshop.certificate(authority, "ec");
        }
        trusting(&workshop, authority, None)
    });
    let connect = |name, config| Secured::connect_to(name, cache.address(), config);
    let mut open = connect(FIRST, &old).expect("a handshake");
    open.ask("PING", "+PONG\r\n");

    workshop.sh(&format!("cp {FIRST}.pem kept.pem; cp {FIRST}.key kept.key"));
    workshop.sh(&format!("cp {SECOND}.pem {FIRST}.pem; cp {SECOND}.key {FIRST}.key"));
    cache.process().signal("HUP");
    let line = cache.log_line("reload failed, nothing changed");
    assert!(line.contains("expected a certificate that is valid for first.example"), "{line}");
    connect(FIRST, &old).expect("the certificate of before");

    workshop.signed(FIRST, "renewed");
    cache.process().signal("HUP");
    let started = Instant::now();
    while let Err(error) = connect(FIRST, &new) {
        assert!(started.elapsed() < PATIENCE, "the old certificate: {error}");
    }
    assert!(connect(FIRST, &old).is_err(), "the old one is not presented");
    connect(SECOND, &old).expect("the certificate of the other name");
    open.ask("PING", "+PONG\r\n");
}

#[test]
fn redis_py_and_pymongo_share_a_port() {
    let Some(python) = python() else { return };
    let Some(workshop) = certificates() else { return };
    let (Some(first), Some(second)) = (Redis::start(), Redis::start()) else { return };
    let Some(mongo) = Mongo::start_java() else { return };
    let names = [FIRST, SECOND, "mongo.example"];
    let [one, two, three] = names.map(|name| named(&workshop, name));
    let listeners = [
        ("redis", first.address(), &one[..]),
        ("redis", second.address(), &two[..]),
        ("mongodb", mongo.address(), &three[..]),
    ];
    let cache = Cache::start_all(&listeners, "");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/by_server_name.py");
    let output = Command::new(python)
        .args([script, &cache.address().port().to_string()])
        .arg(workshop.path("authority.pem"))
        .args(names)
        .output()
        .expect("python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", cache.process().stderr());
    assert!(cache.hits() >= 6.0, "{:?}", cache.statistics());
}

#[test]
fn mistakes_in_names_are_found_before_the_start() {
    let Some(workshop) = certificates() else { return };
    workshop.signed("one.example", "authority");
    let listener = |tls: &str| {
        format!("[[listener]]\nlisten = \"redis://127.0.0.1:1\"\norigin = \"redis://db\"\n{tls}")
    };
    let one = listener(&options(&workshop, "one.example", "one.example"));
    let files = [("cert", "one.example.pem"), ("key", "one.example.key")];
    let unnamed = listener(&table(&workshop, "tls", &files, ""));
    let capitals = listener(&options(&workshop, "one.example", "One.Example"));
    let other = listener(&options(&workshop, "one.example", "two.example"));
    let address = listener(&options(&workshop, "one.example", "127.0.0.1"));
    for (text, expected) in [
        (one.clone() + &capitals, ":8:7: one.example is also a name of the listener above"),
        (one.clone() + &unnamed, ":6:10: 127.0.0.1:1 is used twice"),
        (address, ":4:7: expected DNS names in `names`, found \"127.0.0.1\""),
        (other, "valid for two.example, found: one.example"),
    ] {
        workshop.write("enroute.toml", &text);
        let file = workshop.path("enroute.toml").display().to_string();
        let checked = Enroute::start(&["config", "check", &file]).wait();
        assert!(!checked.status.success(), "{text}");
        assert!(checked.stderr.contains(expected), "{expected}: {}", checked.stderr);
    }
}
