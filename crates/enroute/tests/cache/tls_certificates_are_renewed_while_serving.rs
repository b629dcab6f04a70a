//! After SIGHUP the cache reads its certificates again: new handshakes use the new ones, open
//! connections continue, and a mistake in a file changes nothing. Clients and cache resume their
//! sessions in between.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs};

use crate::support::{
    enroute::Cache,
    process::PATIENCE,
    secured::{Secured, certificates, origin_tls, redis, tls, trusting},
};

#[test]
fn renewed_certificates_are_shown_and_open_connections_continue() {
    let Some(workshop) = certificates() else { return };
    let Some((origin, _)) = redis(&workshop, "localhost", false) else { return };
    let cache = Cache::start_all(&[("redis", origin.address(), &tls(&workshop))], "");
    let old = trusting(&workshop, "authority", None);
    let mut open = Secured::connect(cache.address(), &old).expect("a handshake");
    open.ask("SET key value", "+OK\r\n");
    let mut again = Secured::connect(cache.address(), &old).expect("a handshake");
    again.ask("GET key", "$5\r\nvalue\r\n");
    assert!(again.is_resumed(), "a second handshake resumes the session of the first");

    workshop.certificate("renewed", "ec");
    workshop.sh("cp localhost.key before.key");
    workshop.write("localhost.key", "no key");
    cache.process().signal("HUP");
    cache.log_line("reload failed, nothing changed");
    Secured::connect(cache.address(), &old).expect("the certificate of before");

    workshop.signed("localhost", "renewed");
    cache.process().signal("HUP");
    let new = trusting(&workshop, "renewed", None);
    let started = Instant::now();
    let mut client = loop {
        match Secured::connect(cache.address(), &new) {
            Ok(client) => break client,
            Err(error) => assert!(started.elapsed() < PATIENCE, "the old certificate: {error}"),
        }
    };
    client.ask("GET key", "$5\r\nvalue\r\n");
    assert!(Secured::connect(cache.address(), &old).is_err(), "the old one is not shown");
    open.ask("GET key", "$5\r\nvalue\r\n");
    assert!(cache.terminate().status.success());
}

#[test]
fn sessions_with_the_origin_are_resumed() {
    let Some(workshop) = certificates() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let chain = CertificateDer::from_pem_file(workshop.path("localhost.pem")).expect("its file");
    let key = PrivateKeyDer::from_pem_file(workshop.path("localhost.key")).expect("its file");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("a pair");
    let config = Arc::new(config);
    let (tell, kinds) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (tell, config) = (tell.clone(), Arc::clone(&config));
            thread::spawn(move || {
                let tls = ServerConnection::new(config).expect("a server");
                let mut stream = StreamOwned::new(tls, stream.expect("a client"));
                let mut said = [0; 1_024];
                let mut told = false;
                while let Ok(count @ 1..) = stream.read(&mut said) {
                    if !std::mem::replace(&mut told, true) {
                        let _ = tell.send(stream.conn.handshake_kind());
                    }
                    let commands = said[..count].iter().filter(|byte| **byte == b'*').count();
                    let _ = stream.write_all("-ERR no\r\n".repeat(commands.max(1)).as_bytes());
                }
            });
        }
    });
    let cache = Cache::start_all(
        &[("rediss", address, &[tls(&workshop), origin_tls(&workshop)].concat())],
        "",
    );
    let config = trusting(&workshop, "authority", None);
    // The first connections may be concurrent; session tickets come with the first replies.
    for _ in 0..20 {
        let mut client = Secured::connect(cache.address(), &config).expect("a handshake");
        client.ask("PING", "-ERR no\r\n");
        while let Ok(kind) = kinds.try_recv() {
            if kind == Some(HandshakeKind::Resumed) {
                return;
            }
        }
    }
    panic!("no session was resumed");
}
