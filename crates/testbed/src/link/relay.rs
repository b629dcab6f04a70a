//! A path for TCP connections, without root and for any client.
//!
//! The relay accepts a connection at once, opens one to the server, and forwards the bytes at the
//! times of the [`Schedule`](super::Schedule). A relay emulates the following only approximately:
//!
//! - **Handshake.** The kernel answers the client's SYN locally. With `handshake` (the default)
//!   data of the client is held for the round trip that its connect would have taken, so the first
//!   answer takes two round trips from the start of the connect, as on a real path. `connect`
//!   itself returns at once, and a refusal arrives as a reset one round trip later.
//! - **Loss.** A lost segment stalls itself and what follows on its connection by the time of its
//!   retransmission ([`Schedule::stream`](super::Schedule::stream)). Congestion windows do not
//!   shrink.
//! - **Rate.** All connections share one bottleneck each way; when its queue is full the relay
//!   stops reading, which blocks the sender.
//! - **Cut.** Nothing is read or delivered, connects included. Data in flight is sent again at the
//!   restore, with the full delay. Retransmission timeouts are not emulated: a real TCP waits
//!   longer than the cut, up to twice as long.
//! - **End.** Half-close and reset arrive after the bytes before them, with delay.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::handle::LinkHandle;
use super::schedule::PathConfig;
use super::stats::{LinkCounters, LinkStats};
use worker::Worker;

mod connection;
mod flow;
mod worker;

/// Configuration of a relay: addresses and path.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Address that clients connect to; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Address that connections are forwarded to.
    pub to: SocketAddr,
    /// The path from the client to the server.
    pub up: PathConfig,
    /// The path back.
    pub down: PathConfig,
    /// Whether a connection's first bytes also wait for the round trip of its handshake.
    pub handshake: bool,
    /// Outages, as ranges of time since the start.
    pub cuts: Vec<Range<Duration>>,
    /// Seed of jitter and losses. Connections share it, so they repeat only as far as the order of
    /// their bytes repeats.
    pub seed: u64,
    /// Limit on the connections open at once; later ones wait to be accepted.
    pub connections_max: usize,
    /// Limit on the bytes in flight of one connection in one direction; `None` derives it from rate
    /// and delay. It acts as a window: no more than this leaves per one-way delay.
    pub window_bytes: Option<usize>,
    /// The time before a departure for which the thread polls instead of sleeping, which costs
    /// processor time for precision: a sleeping thread wakes up this late on a busy virtual
    /// machine.
    pub spin: Duration,
}

impl RelayConfig {
    /// A relay to `to` from a free loopback port, over a perfect path.
    #[must_use]
    pub fn new(to: SocketAddr) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            to,
            up: PathConfig::default(),
            down: PathConfig::default(),
            handshake: true,
            cuts: Vec::new(),
            seed: 0,
            connections_max: 4096,
            window_bytes: None,
            spin: Duration::from_micros(150),
        }
    }

    /// The same relay with this round trip time, half of it each way.
    #[must_use]
    pub fn round_trip(mut self, round_trip: Duration) -> Self {
        self.up.delay = round_trip / 2;
        self.down.delay = round_trip - self.up.delay;
        self
    }
}

/// Relays connections over an emulated path.
#[derive(Debug)]
pub struct Relay;

impl Relay {
    /// Starts a relay on a thread of its own. It listens when this returns.
    ///
    /// # Errors
    ///
    /// It cannot listen on `listen`, or the system is out of descriptors or threads.
    pub fn start(config: RelayConfig) -> io::Result<RelayHandle> {
        let listener = TcpListener::bind(config.listen).map_err(|error| {
            let explained = format!("cannot listen on {}: {error}", config.listen);
            io::Error::new(error.kind(), explained)
        })?;
        let local_addr = listener.local_addr()?;
        let counters = Arc::new(LinkCounters::default());
        let control = Control::start("link-relay", |commands| {
            let worker = Worker::new(config, listener, commands, Arc::clone(&counters))?;
            Ok(move || worker.run())
        })?;
        Ok(RelayHandle { local_addr, link: LinkHandle { counters, control } })
    }
}

/// A running relay, and where clients connect to it. Dropping it stops the relay and closes its
/// connections.
#[derive(Debug)]
pub struct RelayHandle {
    local_addr: SocketAddr,
    link: LinkHandle,
}

impl RelayHandle {
    /// Address that clients connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops the relay, closes its connections and returns its statistics.
    pub fn stop(self) -> LinkStats {
        self.link.stop()
    }
}

impl Deref for RelayHandle {
    type Target = LinkHandle;

    fn deref(&self) -> &LinkHandle {
        &self.link
    }
}

#[cfg(test)]
mod tests;
