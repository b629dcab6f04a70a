//! An encrypted connection takes no more memory than the guide states.

use crate::support::{
    enroute::Cache,
    process::raise_open_files,
    secured::{Secured, certificates, origin_tls, redis, tls, trusting},
};

/// Memory of each side, as stated in `docs/guide/configuration.md`.
const SESSION_BYTES: usize = 16 << 10;
const CLIENTS: usize = 500;

#[test]
fn established_tls_connections_take_little_memory() {
    let Some(workshop) = certificates() else { return };
    let Some((_origin, address)) = redis(&workshop, "localhost", false) else { return };
    raise_open_files();
    let options = [tls(&workshop), origin_tls(&workshop)].concat();
    let cache = Cache::start_all(&[("rediss", address, &options)], "workers = 1\n");
    let config = trusting(&workshop, "authority", None);
    let connect = |count: usize| -> Vec<Secured> {
        let client = |_| {
            let mut client = Secured::connect(cache.address(), &config).expect("a handshake");
            client.ask("PING", "+PONG\r\n");
            client
        };
        (0..count).map(client).collect()
    };
    let _first = connect(100);
    let before = cache.process().resident_bytes();
    let _clients = connect(CLIENTS);
    let grown = cache.process().resident_bytes().saturating_sub(before) / CLIENTS;
    eprintln!("{grown} bytes for each client and its connection to the origin");
    assert!(grown < 2 * SESSION_BYTES, "{grown} bytes");
}
