//! Mapping from nodes of a Redis Cluster to listeners.

use std::{
    io,
    net::{TcpListener, ToSocketAddrs},
};

use cache::filter::resp::Addresses;

use super::{ListenerDocument, Scheme};

/// The address of each Redis listener, by the address of its origin: as configured, and as
/// resolved, since nodes refer to each other by IP address.
pub(super) fn addresses(
    listeners: &[ListenerDocument],
    sockets: &[TcpListener],
) -> io::Result<Addresses> {
    let mut pairs = Vec::new();
    for (listener, socket) in listeners.iter().zip(sockets) {
        let found = listener.origin.sentinels.is_some();
        if listener.listen.scheme != Scheme::Redis || listener.is_transparent() || found {
            continue;
        }
        let node = &listener.origin.host_port;
        let ours = listener.advertised(socket.local_addr()?);
        pairs.push((node.clone(), ours.clone()));
        // A name that does not resolve yet is resolved again at each connection, but not here.
        let resolved = node.to_socket_addrs().into_iter().flatten();
        pairs.extend(resolved.map(|address| (address.to_string(), ours.clone())));
    }
    pairs.dedup();
    Ok(Addresses::new(pairs))
}
