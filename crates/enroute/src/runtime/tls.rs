//! TLS of clients and origins: incomplete handshakes, addresses, reloading.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use platform::{
    certificate::Life,
    tls::{HANDSHAKE_MAX, HANDSHAKES_MAX, SESSION_BYTES},
};
use reactor::{Channel, Socket};

use super::{Listener, Protocol, Shared};

/// A place among the incomplete handshakes of a listener, and the clients it looks at first.
pub(super) struct Shaking(Arc<Listener>);

impl Shaking {
    /// Takes a place; none where nothing is known of clients before they are served.
    pub(super) fn begin(listener: &Arc<Listener>) -> Option<Self> {
        if listener.tls.is_none() && !listener.is_looked_at() {
            return None;
        }
        listener.shaking.fetch_add(1, Relaxed);
        Some(Self(Arc::clone(listener)))
    }
}

impl Drop for Shaking {
    fn drop(&mut self) {
        self.0.shaking.fetch_sub(1, Relaxed);
    }
}

/// The handshake of a client, until it is complete.
pub(super) struct Handshake {
    /// The client is closed then.
    pub(super) until: Duration,
    _place: Shaking,
}

/// The channel of a client over its `socket`, and its handshake.
pub(super) fn begin(
    socket: Socket,
    listener: &Listener,
    shaking: Option<Shaking>,
    now: Duration,
) -> io::Result<(Channel, Option<Handshake>)> {
    let Some((tls, place)) = listener.tls.as_ref().zip(shaking) else {
        return Ok((socket.into(), None));
    };
    let tls = tls.connection().map_err(io::Error::other)?;
    let handshake = Handshake { until: now + HANDSHAKE_MAX, _place: place };
    Ok((Channel::new(socket, Some(tls.into())), Some(handshake)))
}

impl Listener {
    /// Whether its clients wait until other handshakes are complete.
    pub(super) fn has_enough_handshakes(&self) -> bool {
        self.shaking.load(Relaxed) >= HANDSHAKES_MAX
    }

    /// The address for clients, and the server names if they are limited.
    pub fn url(&self) -> String {
        let url = match (&self.protocol, self.tls.is_some() || self.passes) {
            (Protocol::Resp(_), true) => format!("rediss://{}", self.address),
            (Protocol::DynamoDb(_), true) => format!("dynamodbs://{}", self.address),
            (Protocol::Mongo(_), true) => format!("mongodb://{}/?tls=true", self.address),
            (protocol, _) => format!("{}://{}", protocol.name(), self.address),
        };
        url + &self.named()
    }

    /// The address, and the server names if they are limited: no other listener has the same.
    pub fn place(&self) -> String {
        self.address.to_string() + &self.named()
    }

    fn named(&self) -> String {
        if self.names.is_empty() { String::new() } else { format!(" ({})", self.names.join(", ")) }
    }
}

impl Shared {
    /// Whether a listener or an origin has TLS.
    pub fn uses_tls(&self) -> bool {
        self.listeners.iter().any(|one| one.tls.is_some() || one.origin.tls().is_some())
    }

    /// Memory of encrypted connections, in addition to the configured limits.
    pub(super) fn tls_bytes(&self) -> u64 {
        let of = |listener: &Arc<Listener>| {
            // A relayed connection has a buffer of 8 KiB in each direction.
            let clients = listener.tls.is_some() || listener.passes;
            let sides = [clients, listener.origin.tls().is_some()];
            listener.connections() * sides.map(usize::from).iter().sum::<usize>() * SESSION_BYTES
        };
        self.listeners.iter().map(of).sum::<usize>() as u64
    }

    /// Reads the files of TLS again. New connections use them; open ones continue.
    ///
    /// # Errors
    /// A file cannot be used; nothing has changed.
    pub fn reload_tls(&self) -> anyhow::Result<()> {
        let servers = self.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        let servers = servers.map(|tls| Ok((tls, tls.files().read()?)));
        let servers: Vec<_> = servers.collect::<anyhow::Result<_>>()?;
        let clients = self.listeners.iter().filter_map(|listener| listener.origin.tls());
        let clients = clients.map(|tls| Ok((tls, tls.expected().read()?)));
        for (tls, config) in clients.collect::<anyhow::Result<Vec<_>>>()? {
            tls.replace(config);
        }
        for (tls, config) in servers {
            tls.replace(config);
        }
        Ok(())
    }

    /// Validity of the certificates that it presents.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn certificates(&self) -> anyhow::Result<Vec<Life>> {
        let read = |listener: &Arc<Listener>| {
            let tls = listener.tls.as_ref()?;
            Some(Life::read(&listener.url(), &tls.files().certificate))
        };
        self.listeners.iter().filter_map(read).collect()
    }
}
