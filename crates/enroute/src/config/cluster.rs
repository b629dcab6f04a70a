//! Mapping from nodes of a Redis Cluster, and from members of a replica set, to listeners.

use std::{
    io,
    net::{TcpListener, ToSocketAddrs},
};

use cache::filter::{mongo::Advertised, resp::Addresses};
use notation::FoundBy;

use super::{ListenerDocument, Scheme};

/// The address of each Redis listener, by the address of its origin: as configured, and as
/// resolved, since nodes refer to each other by IP address.
pub(super) fn addresses(
    listeners: &[ListenerDocument],
    sockets: &[TcpListener],
) -> io::Result<Addresses> {
    let mut pairs = Vec::new();
    for (listener, socket) in listeners.iter().zip(sockets) {
        let found = listener.origin.found_by.is_some();
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

/// For each listener, the addresses that drivers get in place of those of the members of its
/// replica set: of the listeners for its primary and for a secondary, where there are both.
pub(super) fn members(
    listeners: &[ListenerDocument],
    sockets: &[TcpListener],
) -> io::Result<Vec<Advertised>> {
    let pairs = || listeners.iter().zip(sockets);
    let all = pairs().map(|(listener, socket)| {
        let mut told = Advertised::only(listener.advertised(socket.local_addr()?));
        for (other, socket) in pairs() {
            let is_of_same = other.origin.host_port == listener.origin.host_port;
            if is_of_same && other.uses_secondary() != listener.uses_secondary() {
                let theirs = other.advertised(socket.local_addr()?);
                match other.uses_secondary() {
                    true => told.secondary = theirs,
                    false => told.primary = theirs,
                }
            }
        }
        Ok(told)
    });
    all.collect()
}

impl ListenerDocument {
    /// Whether its origin is a secondary of a replica set, of which nothing is stored.
    pub(super) fn uses_secondary(&self) -> bool {
        let members = self.origin.found_by.as_ref();
        matches!(members, Some(FoundBy::Deployment(members)) if members.secondary)
    }
}
