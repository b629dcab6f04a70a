//! A client's connection to an agent, encrypted or not.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use endpoint::{Told, seldom};
use platform::tls::{self, HANDSHAKE_MAX};
use reactor::{Channel, Possible, Socket};
use tracing::debug;
use wire::detect::{self, Protocol};

use super::links::write;

/// A client's connection, by its place in [`state::agent::Agent`].
pub(super) struct Seat {
    channel: Channel,
    pub(super) peer: SocketAddr,
    /// The client is served in this round.
    called: bool,
    /// Its handshake must be complete then.
    pub(super) shakes_until: Option<Duration>,
    /// Bytes that TLS keeps for it.
    pub(super) tls_bytes: usize,
}

/// Why a client is not served any more.
pub(super) enum Refusal {
    /// The connection is lost.
    Lost,
    /// It speaks another protocol than TLS, and is told so.
    Foreign(wire::Error),
}

impl Seat {
    /// The seat of a client that has connected at `now`.
    pub(super) fn new(
        socket: Socket,
        tls: Option<&tls::Server>,
        peer: SocketAddr,
        now: Duration,
    ) -> io::Result<Self> {
        let tls = tls.map(tls::Server::connection).transpose().map_err(io::Error::other)?;
        let shakes_until = tls.as_ref().map(|_| now + HANDSHAKE_MAX);
        let channel = Channel::new(socket, tls.map(Into::into));
        Ok(Self { channel, peer, called: false, shakes_until, tls_bytes: 0 })
    }

    pub(super) fn notice(&mut self, client: usize, possible: Possible, called: &mut Vec<usize>) {
        self.channel.notice(possible);
        self.call(client, called);
    }

    /// Has the client served in the next round.
    pub(super) fn call(&mut self, client: usize, called: &mut Vec<usize>) {
        if !std::mem::replace(&mut self.called, true) {
            called.push(client);
        }
    }

    /// The client is served now.
    pub(super) fn begin_turn(&mut self) {
        self.called = false;
    }

    pub(super) fn is_readable(&self) -> bool {
        self.channel.is_readable()
    }

    /// Reads what is there; 0 bytes are the end, `None` is nothing yet.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        tls: Option<&tls::Server>,
        told: &Told,
    ) -> Result<Option<usize>, Refusal> {
        let read = self.channel.read(buffer);
        self.tls_bytes = self.channel.held_bytes();
        if self.shakes_until.is_some() && !self.channel.is_handshaking() {
            self.shakes_until = None;
        }
        read.map_err(|error| match self.shakes_until {
            Some(_) => self.refuse_handshake(&error.to_string(), tls, told),
            None => {
                debug!(peer = %self.peer, "client connection failed: {error}");
                Refusal::Lost
            }
        })
    }

    /// Logs why the handshake failed.
    pub(super) fn refuse_handshake(
        &mut self,
        found: &str,
        tls: Option<&tls::Server>,
        told: &Told,
    ) -> Refusal {
        let peer = self.peer;
        let first = self.channel.first().unwrap_or_default();
        if let Err(foreign) = detect::expect(Protocol::Tls, first) {
            self.shakes_until = None;
            self.channel.give_up_tls();
            return Refusal::Foreign(foreign);
        }
        if let (Some(tls), Ok(listen)) = (tls, self.channel.local_addr()) {
            let expected = tls.files().expectation();
            seldom!(told, Handshake => warn, %peer, %listen,
                "closing: TLS handshake failed: expected {expected}, found: {found}");
        }
        Refusal::Lost
    }

    /// Writes as much as the client accepts.
    pub(super) fn write(&mut self, output: &mut state::agent::Output) -> io::Result<()> {
        self.channel.flush()?;
        write(output, |bytes| self.channel.write(bytes))?;
        self.tls_bytes = self.channel.held_bytes();
        Ok(())
    }

    /// Whether bytes wait for the socket.
    pub(super) fn has_unsent(&self) -> bool {
        self.channel.has_unsent()
    }

    /// Announces the end to a client with TLS.
    pub(super) fn finish(&mut self) {
        self.channel.finish();
    }
}

/// Time spent on handshakes in one round of the loop.
#[derive(Default)]
pub(super) struct Shaking(Duration);

impl Shaking {
    /// Whether handshakes wait for the next round: they take up to milliseconds each.
    pub(super) fn is_over(&self) -> bool {
        self.0 >= tls::HANDSHAKES_ROUND_MAX
    }

    pub(super) fn spend<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = act();
        self.0 += begun.elapsed();
        result
    }
}
