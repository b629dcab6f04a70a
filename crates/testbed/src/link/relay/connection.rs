//! One relayed connection: two sockets, and the bytes in flight between them.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use reactor::Possible;
use rustix::io::Errno;

use super::flow::{Crossing, End, Ending, Flow, Path, earliest};
use crate::link::stats::LinkCounters;

/// Both directions of the path, as a connection sees them at one moment.
pub(super) struct Paths {
    pub(super) up: Path,
    pub(super) down: Path,
    pub(super) is_cut: bool,
    pub(super) counters: Arc<LinkCounters>,
}

impl Paths {
    pub(super) fn round_trip(&self) -> Duration {
        self.up.schedule.config().delay + self.down.schedule.config().delay
    }
}

/// State of a connection after a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It has ended; drop it.
    Closed,
    /// It can make progress at once.
    Again,
    /// Nothing to do before this time, unless a socket becomes ready.
    Wait(Option<Duration>),
}

/// The two ends of a relayed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// One relayed connection.
pub(super) struct Connection {
    client: End,
    server: End,
    up: Flow,
    down: Flow,
    connecting: bool,
    /// The time at which the emulated handshake ends.
    established_at: Duration,
    handshake: bool,
    /// The earliest timer the worker holds for this connection.
    pub(super) armed: Option<Duration>,
}

impl Connection {
    /// A connection accepted `now`; the one to the server is being made or was `refused` at once.
    pub(super) fn new(
        client: TcpStream,
        server: TcpStream,
        handshake: bool,
        refused: Option<Errno>,
        paths: &Paths,
        now: Duration,
    ) -> Self {
        let end = |stream| End { stream, readable: false, writable: false, failed: false };
        let mut connection = Self {
            client: end(client),
            server: end(server),
            up: Flow::default(),
            down: Flow::default(),
            connecting: true,
            established_at: now,
            handshake,
            armed: None,
        };
        connection.shake_hands(paths, now);
        if let Some(error) = refused {
            connection.refuse(error, now);
        }
        connection
    }

    /// Both streams of both ends, to register and to close.
    pub(super) fn streams(&self) -> [(&TcpStream, Side); 2] {
        [(&self.client.stream, Side::Client), (&self.server.stream, Side::Server)]
    }

    /// Records an epoll event of one end.
    pub(super) fn note_ready(&mut self, side: Side, possible: Possible) {
        let end = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        end.failed |= possible.is_failure();
        end.readable |= possible.is_read();
        end.writable |= possible.is_write();
    }

    /// The outage has ended: data in flight crosses the path again.
    pub(super) fn restore(&mut self, cut_at: Duration, paths: &Paths, now: Duration) {
        if self.established_at > cut_at {
            self.shake_hands(paths, now);
        }
        for (flow, path) in [(&mut self.up, &paths.up), (&mut self.down, &paths.down)] {
            flow.hold_until(now + path.schedule.config().delay);
        }
    }

    /// Reads what has arrived and writes what is due.
    pub(super) fn advance(&mut self, paths: &mut Paths, buffer: &mut [u8], now: Duration) -> Next {
        if paths.is_cut {
            return Next::Wait(None);
        }
        if self.connecting && self.server.writable {
            self.finish_connect(now);
        }
        let round_trip = paths.round_trip();
        let counters = Arc::clone(&paths.counters);
        let mut again = false;
        let mut wake_at = None;
        for side in [Side::Client, Side::Server] {
            let connecting = self.connecting;
            let (source, flow, sink, path, counters) = match side {
                Side::Client => {
                    (&mut self.client, &mut self.up, &mut self.server, &mut paths.up, &counters.up)
                }
                Side::Server => (
                    &mut self.server,
                    &mut self.down,
                    &mut self.client,
                    &mut paths.down,
                    &counters.down,
                ),
            };
            let mut crossing = Crossing { source, flow, sink, path, counters };
            let received = crossing.receive(buffer, round_trip, now);
            let delivered =
                if connecting && side == Side::Client { Ok(()) } else { crossing.deliver(now) };
            again |= crossing.may_receive(now);
            earliest(&mut wake_at, crossing.wakes_at(now, connecting && side == Side::Client));
            let other = if side == Side::Client { Side::Server } else { Side::Client };
            match (received, delivered) {
                (Ok(()), Ok(())) => {}
                (Err(_), _) => self.note_reset(side, paths, now),
                (_, Err(_)) => self.note_reset(other, paths, now),
            }
        }
        if self.is_over(now) {
            return Next::Closed;
        }
        if again { Next::Again } else { Next::Wait(self.with_endings(wake_at)) }
    }

    fn shake_hands(&mut self, paths: &Paths, now: Duration) {
        if self.handshake {
            self.established_at = now + paths.round_trip();
            self.up.opens_at = self.established_at;
            // The server accepts when the last packet of the handshake reaches it.
            self.down.opens_at = self.established_at + paths.up.schedule.config().delay;
        }
    }

    fn finish_connect(&mut self, now: Duration) {
        match rustix::net::sockopt::socket_error(&self.server.stream) {
            Ok(Ok(())) => {
                // SO_ERROR is also clear while the connect is still under way.
                self.connecting = self.server.stream.peer_addr().is_err();
            }
            Ok(Err(error)) | Err(error) => self.refuse(error, now),
        }
    }

    /// The server refuses the connection: the client is reset one round trip after its connect.
    fn refuse(&mut self, error: Errno, now: Duration) {
        tracing::warn!(%error, "cannot connect to the address of --to, client reset; check that a \
                                server listens there");
        self.down.ending = Some((Ending::Reset, now.max(self.established_at)));
        self.up.dead = true;
        self.server.failed = false;
    }

    /// The socket of `side` is closed: the other side sees that after the data sent before.
    fn note_reset(&mut self, side: Side, paths: &mut Paths, now: Duration) {
        let (from, toward, path) = match side {
            Side::Client => (&mut self.up, &mut self.down, &mut paths.up),
            Side::Server => (&mut self.down, &mut self.up, &mut paths.down),
        };
        match side {
            Side::Client => self.client.failed = false,
            Side::Server => self.server.failed = false,
        }
        if !matches!(from.ending, Some((Ending::Reset, _))) {
            let at = path.schedule.signal(&mut from.order, now.max(from.opens_at));
            from.ending = Some((Ending::Reset, at));
        }
        toward.dead = true;
    }

    /// Whether both directions have ended; carries out a reset that is due.
    fn is_over(&mut self, now: Duration) -> bool {
        for (flow, sink) in [(&self.up, &self.server), (&self.down, &self.client)] {
            if let Some((Ending::Reset, at)) = flow.ending
                && at <= now
            {
                // Closing with linger 0 is how a reset is sent.
                let _ = rustix::net::sockopt::set_socket_linger(&sink.stream, Some(Duration::ZERO));
                return true;
            }
        }
        self.up.half_closed && self.down.half_closed
    }

    /// Resets are carried out even if their socket is not writable.
    fn with_endings(&self, mut wake_at: Option<Duration>) -> Option<Duration> {
        for flow in [&self.up, &self.down] {
            if let Some((Ending::Reset, at)) = flow.ending {
                earliest(&mut wake_at, Some(at));
            }
        }
        wake_at
    }

    /// Bytes still in flight, to be subtracted from the gauges.
    pub(super) fn queued_bytes(&self) -> (usize, usize) {
        (self.up.bytes.len(), self.down.bytes.len())
    }
}
