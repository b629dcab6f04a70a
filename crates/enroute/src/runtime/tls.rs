//! Encrypted clients and origins: handshakes that are not complete, addresses, reloading.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use reactor::{Channel, Socket};

use super::{Listener, Protocol, Shared};
use crate::certificate::Life;

/// Longest time from accepting a client to the end of its handshake.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Clients of one listener whose handshakes are not complete; further ones wait to be accepted.
const SHAKING_MAX: usize = 1_024;
/// Time that one worker spends on handshakes before its other clients have their turn.
pub(super) const ROUND_MAX: Duration = Duration::from_millis(1);

/// A place among the incomplete handshakes of a listener.
pub(super) struct Shaking(Arc<Listener>);

impl Shaking {
    /// Takes a place; none where clients do not use TLS.
    pub(super) fn begin(listener: &Arc<Listener>) -> Option<Self> {
        listener.tls.as_ref()?;
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
        self.shaking.load(Relaxed) >= SHAKING_MAX
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        match (&self.protocol, &self.tls) {
            (Protocol::Resp(_), Some(_)) => format!("rediss://{}", self.address),
            (Protocol::Mongo(_), Some(_)) => format!("mongodb://{}/?tls=true", self.address),
            (protocol, _) => format!("{}://{}", protocol.name(), self.address),
        }
    }
}

impl Shared {
    /// Whether a listener or an origin has TLS.
    pub fn uses_tls(&self) -> bool {
        self.listeners.iter().any(|one| one.tls.is_some() || one.origin.tls().is_some())
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
