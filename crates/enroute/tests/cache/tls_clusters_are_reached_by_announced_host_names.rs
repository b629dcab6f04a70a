//! A Redis Cluster with TLS whose nodes announce host names: the certificate of each node is
//! verified for its host name, and clients receive the names of the listeners, never those of the
//! nodes.

use std::{net::SocketAddr, process::Command};

use crate::support::{
    cluster::{NODES, spread},
    directory::python,
    enroute::Enroute,
    origins::Redis,
    secured::{Secured, certificates, redis_with, table, trusting},
    workshop::Workshop,
};

const NAMES: [&str; NODES] = ["one.example", "two.example", "three.example"];

/// Nodes with TLS that announce the host name `localhost` and prefer endpoints of `kind`, and their
/// TLS addresses.
fn nodes(workshop: &Workshop, kind: &str) -> Option<(Vec<Redis>, Vec<SocketAddr>)> {
    let options = [
        ["--cluster-enabled", "yes"],
        ["--cluster-node-timeout", "15000"],
        ["--tls-cluster", "yes"],
        ["--tls-auth-clients", "no"],
        ["--cluster-announce-hostname", "localhost"],
        ["--cluster-preferred-endpoint-type", kind],
    ];
    let node = |_| redis_with(workshop, "localhost", options.as_flattened());
    let (nodes, addresses): (Vec<_>, Vec<_>) =
        (0..NODES).map(node).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    spread(&nodes, &addresses);
    Some((nodes, addresses))
}

/// A listener for each node, all on one port.
fn cache(workshop: &Workshop, addresses: &[SocketAddr]) -> (Enroute, SocketAddr) {
    let mut text = String::new();
    for (name, node) in NAMES.into_iter().zip(addresses) {
        workshop.signed(name, "authority");
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        let files = [("cert", &certificate[..]), ("key", &key[..])];
        text += &format!(
            "[[listener]]\nlisten = \"rediss://127.0.0.1:0\"\norigin = \"rediss://localhost:{}\"\n\
             cluster = \"shop\"\n{}{}",
            node.port(),
            table(workshop, "tls", &files, &format!("names = [{name:?}]")),
            // The host in `origin` is the expected name.
            table(workshop, "origin_tls", &[("ca", "authority.pem")], "")
        );
    }
    let cache = Enroute::start_with_config(&["cache"], &text);
    let address = cache.listen_address("rediss");
    (cache, address)
}

fn clients_find_all_listeners(kind: &str) {
    let Some(python) = python() else { return };
    let Some(workshop) = certificates() else { return };
    let Some((nodes, addresses)) = nodes(&workshop, kind) else { return };
    let (cache, address) = cache(&workshop, &addresses);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/redis_cluster_tls.py");
    let output = Command::new(python)
        .args([script, &address.port().to_string()])
        .arg(workshop.path("authority.pem"))
        .args(NAMES)
        .output()
        .expect("python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let log = cache.process().stderr();
    assert!(output.status.success(), "{said}\n{log}");
    assert!(!log.contains("clients bypass the cache"), "{log}");

    // A node with the certificate of another host gets no request.
    workshop.signed("other.example", "authority");
    let [certificate, key] = ["pem", "key"]
        .map(|kind| workshop.path(&format!("other.example.{kind}")).display().to_string());
    let mut renew = redis::cmd("CONFIG");
    renew.arg("SET").arg("tls-cert-file").arg(certificate).arg("tls-key-file").arg(key);
    renew.exec(&mut nodes[0].connection()).expect("its certificate is replaced");
    let config = trusting(&workshop, "authority", None);
    let mut client = Secured::connect_to(NAMES[0], address, &config).expect("a handshake");
    assert_eq!(client.try_ask("STRLEN key", "-ERR").expect("an answer"), "-ERR");
    cache.stderr_line("expected a valid certificate for localhost");
}

#[test]
fn names_are_preferred() {
    clients_find_all_listeners("hostname");
}

#[test]
fn addresses_are_preferred_and_names_are_told_beside_them() {
    clients_find_all_listeners("ip");
}
