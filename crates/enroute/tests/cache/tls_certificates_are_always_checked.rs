//! Every certificate is verified. An origin that fails verification gets no request, a client
//! without the required certificate gets no reply, and the log states what was expected and what
//! was found.

use crate::support::{
    enroute::{Cache, Enroute},
    secured::{Secured, certificates, origin_tls, redis, table, tls, trusting},
    workshop::Workshop,
};

/// An origin with the certificate of `name`, while `options` expect another.
fn origin_is_refused(workshop: &Workshop, name: &str, options: &str, found: &str) {
    let Some((_origin, address)) = redis(workshop, name, name == "strict") else { return };
    let listener = [&tls(workshop), options].concat();
    let cache = Cache::start_all(&[("rediss", address, &listener)], "");
    let mut client = Secured::connect(cache.address(), &trusting(workshop, "authority", None))
        .expect("a handshake");
    let answer = client.try_ask("SET key value", "-ERR").expect("an answer");
    assert_eq!(answer, "-ERR", "{options}");
    let line = cache.log_line(found);
    assert!(line.contains(&address.to_string()), "{line}");
    assert_eq!(cache.hits(), 0.0);
}

#[test]
fn of_another_authority() {
    let Some(workshop) = certificates() else { return };
    workshop.certificate("stranger", "ec");
    let options = table(&workshop, "origin_tls", &[("ca", "stranger.pem")], "name = \"localhost\"");
    origin_is_refused(
        &workshop,
        "localhost",
        &options,
        "stranger.pem; found: a certificate of another",
    );
    // Without a CA file, the system's authorities are used; none of them signed it.
    let options = "origin_tls = { name = \"localhost\" }\n";
    let found = "signed by an authority of the system; found: a certificate of another authority";
    origin_is_refused(&workshop, "localhost", options, found);
}

#[test]
fn of_another_name() {
    let Some(workshop) = certificates() else { return };
    // The address is an IP address, which is not in the certificate.
    let options = table(&workshop, "origin_tls", &[("ca", "authority.pem")], "");
    let found = "expected a valid certificate for 127.0.0.1";
    origin_is_refused(&workshop, "localhost", &options, found);
    workshop.signed("other.example", "authority");
    origin_is_refused(&workshop, "other.example", &origin_tls(&workshop), "other.example");
}

#[test]
fn of_an_authority_itself() {
    let Some(workshop) = certificates() else { return };
    let files = [("ca", "authority.pem")];
    let options = table(&workshop, "origin_tls", &files, "name = \"authority\"");
    origin_is_refused(&workshop, "authority", &options, "made with basicConstraints=CA:FALSE");
    // What the message advises.
    workshop.sh(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key \
         -days 2 -out own.pem -subj /CN=own -addext subjectAltName=DNS:own \
         -addext basicConstraints=critical,CA:FALSE",
    );
    let Some((_origin, address)) = redis(&workshop, "own", false) else { return };
    let options = table(&workshop, "origin_tls", &[("ca", "own.pem")], "name = \"own\"");
    let listener = [tls(&workshop), options].concat();
    let cache = Cache::start_all(&[("rediss", address, &listener)], "");
    let mut client = Secured::connect(cache.address(), &trusting(&workshop, "authority", None))
        .expect("a handshake");
    client.ask("SET key value", "+OK\r\n");
}

#[test]
fn that_has_expired() {
    let Some(workshop) = certificates() else { return };
    workshop.signed("late", "authority");
    workshop.sh("cp late.key strange.key");
    workshop.ends_in("late", "authority", -60);
    let options = table(&workshop, "origin_tls", &[("ca", "authority.pem")], "name = \"late\"");
    origin_is_refused(&workshop, "late", &options, "expired");
}

#[test]
fn of_a_port_without_tls() {
    let Some(workshop) = certificates() else { return };
    let Some((origin, _)) = redis(&workshop, "localhost", false) else { return };
    let listener = [tls(&workshop), origin_tls(&workshop)].concat();
    let cache = Cache::start_all(&[("rediss", origin.address(), &listener)], "");
    let mut client = Secured::connect(cache.address(), &trusting(&workshop, "authority", None))
        .expect("a handshake");
    assert_eq!(client.try_ask("SET key value", "-ERR").expect("an answer"), "-ERR");
    cache.log_line("expected TLS, got Redis (RESP)");
}

#[test]
fn an_origin_that_demands_a_certificate_gets_it() {
    let Some(workshop) = certificates() else { return };
    let Some((_origin, address)) = redis(&workshop, "localhost", true) else { return };
    let files = [("ca", "authority.pem"), ("cert", "client.pem"), ("key", "client.key")];
    let known = table(&workshop, "origin_tls", &files, "name = \"localhost\"");
    let [known, unknown] =
        [known, origin_tls(&workshop)].map(|options| [tls(&workshop), options].concat());
    let listeners = [("rediss", address, &known[..]), ("rediss", address, &unknown[..])];
    // Both log lines end alike, so each cache is its own process.
    let [with, without] = listeners.map(|listener| Cache::start_all(&[listener], ""));
    let config = trusting(&workshop, "authority", None);
    let mut client = Secured::connect(with.address(), &config).expect("a handshake");
    client.ask("SET key value", "+OK\r\n");
    let mut client = Secured::connect(without.address(), &config).expect("a handshake");
    let answer = client.try_ask("GET key", "$5\r\nvalue\r\n");
    assert!(
        answer.as_deref().is_ok_and(|said| said.starts_with("-")) || answer.is_err(),
        "{answer:?}"
    );
    without.log_line("requires certificates of its clients");
}

#[test]
fn a_client_without_the_certificate_that_is_demanded_is_refused() {
    let Some(workshop) = certificates() else { return };
    workshop.certificate("stranger", "ec");
    let Some((origin, _)) = redis(&workshop, "localhost", false) else { return };
    let files = [("cert", "localhost.pem"), ("key", "localhost.key"), ("ca", "authority.pem")];
    let options = table(&workshop, "tls", &files, "");
    let cache = Cache::start_all(&[("redis", origin.address(), &options)], "");
    for identity in [None, Some("stranger")] {
        let config = trusting(&workshop, "authority", identity);
        let refused = Secured::connect(cache.address(), &config)
            .and_then(|mut client| client.try_ask("PING", "+PONG\r\n"));
        assert!(refused.is_err(), "{identity:?}: {refused:?}");
    }
    let line = cache.log_line("TLS handshake failed");
    assert!(line.contains("expected a certificate signed by an authority in"), "{line}");
    assert!(line.contains("authority.pem"), "{line}");
    let known = trusting(&workshop, "authority", Some("client"));
    for _ in 0..2 {
        let mut client = Secured::connect(cache.address(), &known).expect("a handshake");
        client.ask("PING", "+PONG\r\n");
        assert!(!client.is_resumed(), "each shows its certificate");
    }
}

#[test]
fn a_mistake_in_the_options_of_tls_is_named() {
    for (listen, origin, more, named) in [
        (
            "rediss://127.0.0.1:1",
            "redis://db",
            "",
            "x:2:10: listen = \"rediss://127.0.0.1:1\" needs",
        ),
        ("redis://127.0.0.1:1", "redis://db", "origin_tls = {}", "does not ask for TLS"),
        (
            "redis://127.0.0.1:1",
            "rediss://original",
            "",
            "cannot be combined with origin `original`",
        ),
        ("redis://127.0.0.1:1", "rediss://db", "origin_tls = { cert = \"a\" }", "`key` together"),
        ("mongodb://127.0.0.1:1", "mongodb://db/?tlsInsecure=true", "", "always verified"),
        ("mongodb://127.0.0.1:1", "mongodb://db/?tlsCAFile=a", "", "without tls=true"),
        ("mongodb://127.0.0.1:1", "mongodb://db/?tls=true&ssl=false", "", "expected tls=true"),
        ("mongodb://127.0.0.1:1", "mongodb://db/?loadBalanced=true", "", "loadBalanced"),
    ] {
        let text = format!("[[listener]]\nlisten = \"{listen}\"\norigin = \"{origin}\"\n{more}\n");
        let enroute = Enroute::start_with_config(&["cache"], &text);
        let ended = enroute.wait();
        let named = named.trim_start_matches("x");
        assert!(!ended.status.success() && ended.stderr.contains(named), "{}", ended.stderr);
    }
}
