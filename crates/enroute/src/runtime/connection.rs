//! One client connection: its socket, its origin's socket, and the session between them.
//!
//! The worker calls it when one of its sockets is ready. It reads into the worker's buffer: an idle
//! connection has no buffer.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use cache::{Session, Side, filter::Filter, lease::Ticket};
use endpoint::seldom;
use platform::memory::COUNTED_BYTES;
use reactor::{Channel, Possible, Socket, Token};
use tracing::debug;

use super::{
    Listener,
    inbox::Wanted,
    origin::Origin,
    reached::Parts,
    tls::{Handshake, begin},
    worker::{Accepted, CLIENT, SERVER, Worker},
};

mod far;
mod handshake;
mod output;
mod several;

use far::Link;

/// Interface of a connection to its worker, independent of the protocol.
pub(super) trait Served {
    /// The socket with this tag is ready.
    fn notice(&mut self, tag: u16, possible: Possible);

    /// The fill it waited for has ended.
    fn filled(&mut self);

    /// The requested connection to its origin, or an error; its events carry `token`.
    fn connected(
        &mut self,
        worker: &mut Worker,
        wanted: Wanted,
        connected: io::Result<Parts>,
        token: Token,
    );

    /// The watch has confirmed the origin after a connection to it was made.
    fn confirmed(&mut self, wanted: Wanted);

    /// Reads and handles input.
    fn read(&mut self, worker: &mut Worker);

    /// Writes the results.
    fn write(&mut self, worker: &mut Worker);

    /// Whether another call would make progress now.
    fn can_go_on(&self) -> bool;

    /// Time at which it must be called even without an event.
    fn alarm(&self) -> Option<Duration>;

    /// Bytes that it buffers for its client, as last counted.
    fn held_bytes(&self) -> usize;

    /// Closes the connection to free memory: sends an error to the client and drops the buffers.
    fn shed(&mut self, worker: &mut Worker);

    /// Whether it has finished.
    fn is_over(&self, worker: &Worker) -> bool;

    /// Releases its tickets in storage, and its place.
    fn close(&mut self, worker: &mut Worker);
}

/// One connection.
pub(super) struct Connection<F: Filter> {
    session: Session<F>,
    ticket: Ticket,
    peer: SocketAddr,
    listener: Arc<Listener>,
    client: Channel,
    /// Its TLS handshake, until it is complete.
    handshake: Option<Handshake>,
    client_state: ClientState,
    origin: Link,
    /// The write side to the origin was shut down.
    origin_told: bool,
    address: Arc<Origin>,
    /// The epoch of the origin in which the connection to it was made.
    epoch: u64,
    /// Number of connections to the origin that the watch has not confirmed yet; nothing is read
    /// before.
    unconfirmed: usize,
    /// Bytes counted for it in [`Clients`](platform::memory::Clients).
    counted: usize,
    /// The fill it waited for has ended; it has not handled that yet.
    filled: bool,
    /// Nothing more is read: it ends when the buffered output is written, or at this time.
    closing: Option<Duration>,
    /// The client has disconnected; replies to its writes are awaited until this time.
    afterlife: Option<Duration>,
}

/// State of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// It has sent nothing; until it does, no connection to the origin is made.
    Silent,
    /// It has sent data.
    Speaking,
    /// It has shut down its write side.
    Ended,
    /// Nothing can be read from it or written to it.
    Lost,
}

/// Time for a client that is being closed to read the remaining output.
const LINGER: Duration = Duration::from_secs(5);

/// Maximum number of disconnected clients for whose replies to writes a worker waits; writes of
/// further ones go into quarantine at once.
pub(super) const OUTLIVING_MAX: usize = 256;

/// Maximum output that is written only after the other ready connections have been read; longer
/// output would be evicted from the core's cache before.
const DEFERRED_BYTES_MAX: usize = 2 << 10;

impl<F: Filter + 'static> Connection<F> {
    /// A connection for the client `accepted`, whose events carry `token`. It connects to its
    /// origin when the client sends its first bytes.
    pub(super) fn boxed(
        worker: &Worker,
        accepted: Accepted,
        ticket: Ticket,
        token: u64,
        filter: F,
    ) -> io::Result<Box<dyn Served>> {
        let Accepted { stream, peer, listener, behind, shaking } = accepted;
        let socket = Socket::new(stream, &worker.reactor, token)?;
        let (client, handshake) = begin(socket, &listener, shaking, worker.now())?;
        let (connection, listen, origin) = (ticket.0, listener.address, &behind.origin);
        debug!(connection, %peer, %listen, %origin, "client connected");
        Ok(Box::new(Self {
            session: Session::new(filter, listener.session(), ticket),
            ticket,
            peer,
            client,
            handshake,
            client_state: ClientState::Silent,
            origin: Link::Down,
            origin_told: false,
            address: behind.origin,
            epoch: 0,
            counted: 0,
            unconfirmed: 0,
            filled: false,
            closing: None,
            afterlife: None,
            listener,
        }))
    }
}

impl<F: Filter> Served for Connection<F> {
    fn notice(&mut self, tag: u16, possible: Possible) {
        match (tag, &mut self.origin) {
            (CLIENT, _) => self.client.notice(possible),
            (_, Link::Up(origin)) => origin.notice(possible),
            (tag, Link::Several(servers)) => servers.notice(tag - SERVER, possible),
            (_, Link::Down | Link::Connecting) => {}
        }
    }

    fn filled(&mut self) {
        self.filled = true;
    }

    fn connected(
        &mut self,
        worker: &mut Worker,
        wanted: Wanted,
        connected: io::Result<Parts>,
        token: Token,
    ) {
        if let Link::Several(servers) = &mut self.origin {
            return servers.connected(worker, wanted, connected, token);
        }
        let channel = connected.and_then(|Parts { socket, tls, epoch }| {
            let socket = Socket::new(socket, &worker.reactor, token.tagged(SERVER))?;
            Ok((Channel::new(socket, tls.map(|tls| *tls)), epoch))
        });
        match channel {
            Ok((_, epoch)) if epoch != self.address.place.epoch() => self.connect(worker),
            Ok((origin, epoch)) => {
                (self.origin, self.epoch) = (Link::Up(origin), epoch);
                self.unconfirmed += usize::from(self.address.confirm(wanted));
                self.session.origin_connected(worker.now());
                debug!(connection = self.ticket.0, origin = %self.address, "origin connected");
            }
            Err(error) => {
                self.unconfirmed = 0;
                self.unreachable(worker, &error);
            }
        }
    }

    fn confirmed(&mut self, wanted: Wanted) {
        match &mut self.origin {
            Link::Several(servers) => servers.confirmed(wanted),
            _ => self.unconfirmed = self.unconfirmed.saturating_sub(1),
        }
    }

    fn read(&mut self, worker: &mut Worker) {
        self.session.set_room(worker.room);
        self.leave_former(worker);
        self.wait(worker);
        self.read_origin(worker);
        self.read_client(worker);
        if self.session.output(Side::Client).len() > DEFERRED_BYTES_MAX {
            self.write_client();
            self.time_hits(worker);
            worker.take_back(&mut self.session);
        }
        self.count(worker);
    }

    fn write(&mut self, worker: &mut Worker) {
        self.write_origin(worker);
        self.write_client();
        self.time_hits(worker);
        if self.closing.is_none() && self.session.can_proceed() {
            let now = worker.now();
            self.act(worker, |session, storage| session.proceed(storage, now));
        }
        self.outlive(worker);
        worker.take_back(&mut self.session);
        self.count(worker);
    }

    fn held_bytes(&self) -> usize {
        self.counted
    }

    fn shed(&mut self, worker: &mut Worker) {
        worker.shared.clients.tell(self.peer, self.counted);
        self.session.shed();
        self.write_client();
    }

    fn can_go_on(&self) -> bool {
        let session = &self.session;
        let (reads, writes) = match &self.origin {
            Link::Up(origin) => {
                (origin.is_readable() && self.unconfirmed == 0, origin.is_writable())
            }
            Link::Several(servers) => (servers.is_readable(), servers.is_writable()),
            // It is requested when there is something to write.
            Link::Down => (false, self.closing.is_none()),
            Link::Connecting => (false, false),
        };
        let open = self.closing.is_none();
        (open && self.reads_client() && self.client.is_readable() && session.wants(Side::Client))
            || (self.reads_origin() && reads && session.wants(Side::Server))
            || (open && session.can_proceed())
            || (self.client.is_writable() && !session.is_written(Side::Client))
            || (writes && !session.is_written(Side::Server))
            || self.client.can_flush()
            || matches!(&self.origin, Link::Up(origin) if origin.can_flush())
            || matches!(&self.origin, Link::Several(servers) if servers.can_flush())
    }

    fn alarm(&self) -> Option<Duration> {
        let handshake = || Some(self.handshake.as_ref()?.until);
        let closing = self.afterlife.or(self.closing).or_else(handshake);
        [self.session.poll_timeout(), closing].into_iter().flatten().min()
    }

    fn is_over(&self, worker: &Worker) -> bool {
        match self.afterlife {
            Some(until) => {
                !self.origin.is_up() || !self.session.awaits_writes() || worker.now() >= until
            }
            None => self.is_client_done(worker),
        }
    }

    fn close(&mut self, worker: &mut Worker) {
        let now = worker.now();
        if self.afterlife.is_some() {
            worker.outliving -= 1;
        }
        if !self.origin.is_up() {
            // The requests that wait for a reply were never sent.
            let _over = self.session.origin_unreachable("", &mut worker.storage, now);
        }
        self.session.close(&mut worker.storage, now);
        self.client.finish();
        debug!(connection = self.ticket.0, peer = %self.peer, "client connection ended");
        self.tell_lost();
        worker.deliver();
        worker.take_back(&mut self.session);
        worker.shared.clients.count(self.counted, 0);
        self.listener.left();
    }
}

impl<F: Filter> Connection<F> {
    fn reads_client(&self) -> bool {
        matches!(self.client_state, ClientState::Silent | ClientState::Speaking)
    }

    fn reads_origin(&self) -> bool {
        self.closing.is_none() || self.afterlife.is_some()
    }

    /// Whether nothing is left to do for the client.
    fn is_client_done(&self, worker: &Worker) -> bool {
        if self.client_state == ClientState::Lost {
            return true;
        }
        if let Some(until) = self.closing {
            let written = self.session.is_written(Side::Client) && !self.client.has_unsent();
            return written || worker.now() >= until;
        }
        !self.client.has_unsent()
            && ((self.client_state == ClientState::Ended && self.session.is_quiet())
                || (worker.shared.is_draining() && self.session.is_drained()))
    }

    /// Continues without the client until the origin has answered its writes: their scopes stay
    /// closed until then, instead of for the quarantine.
    fn outlive(&mut self, worker: &mut Worker) {
        let owes = self.afterlife.is_none()
            && self.origin.is_up()
            && self.is_client_done(worker)
            && self.session.awaits_writes()
            // It would consume data meant for other clients.
            && !self.session.waits();
        if owes && worker.outliving < OUTLIVING_MAX {
            worker.outliving += 1;
            self.afterlife = Some(worker.now() + worker.shared.shards.quarantine());
            self.client_state = ClientState::Lost;
            self.client.close();
            self.session.client_gone();
        }
    }

    /// Logs a write whose reply was lost.
    fn tell_lost(&mut self) {
        if let Some(lost) = self.session.take_lost() {
            self.address.report_lost(self.peer, lost);
        }
    }

    /// Updates the count of bytes that it buffers for its client.
    fn count(&mut self, worker: &mut Worker) {
        let held = self.session.held_bytes() + self.link_bytes();
        if held.abs_diff(self.counted) >= COUNTED_BYTES {
            worker.shared.clients.count(self.counted, held);
            self.counted = held;
            worker.look_for_room();
        }
    }

    /// Handles the end of its wait.
    fn wait(&mut self, worker: &mut Worker) {
        self.end_late_handshake(worker);
        if std::mem::take(&mut self.filled) {
            let (ticket, now) = (self.ticket, worker.now());
            self.act(worker, |session, storage| session.complete(ticket, storage, now));
        }
        if let Some(until) = self.session.poll_timeout() {
            let now = worker.now();
            if until <= now {
                self.act(worker, |session, storage| session.handle_timeout(storage, now));
            }
        }
    }

    fn read_client(&mut self, worker: &mut Worker) {
        if self.closing.is_some() || !self.reads_client() || !self.session.wants(Side::Client) {
            return;
        }
        let read = match self.handshake {
            None => self.client.read(&mut worker.buffer),
            Some(_) => self.shake_hands(worker),
        };
        match read {
            Ok(None) => {}
            Ok(Some(0)) => self.client_state = ClientState::Ended,
            Ok(Some(count)) => {
                if self.client_state == ClientState::Silent {
                    self.client_state = ClientState::Speaking;
                    self.connect(worker);
                }
                self.receive(Side::Client, count, worker);
            }
            Err(error) => self.lose_client(&error),
        }
    }

    /// Passes `count` bytes of `side` in the worker's buffer to the session.
    fn receive(&mut self, side: Side, count: usize, worker: &mut Worker) {
        let now = worker.now();
        worker.lend(&mut self.session);
        let outcome = self.session.receive(side, &worker.buffer[..count], &mut worker.storage, now);
        worker.deliver();
        self.settle(outcome, now);
    }

    /// Runs a step of the session that uses storage.
    fn act(
        &mut self,
        worker: &mut Worker,
        act: impl FnOnce(&mut Session<F>, &mut super::Handle) -> Result<(), cache::Error>,
    ) {
        let outcome = act(&mut self.session, &mut worker.storage);
        worker.deliver();
        self.settle(outcome, worker.now());
    }

    /// A protocol error closes this connection and no other.
    fn settle(&mut self, outcome: Result<(), cache::Error>, now: Duration) {
        self.tell_lost();
        if let Err(error) = outcome {
            let Listener { told, address: listen, .. } = &*self.listener;
            match &error {
                cache::Error::Client(error) => told.tell(*listen, self.peer, error),
                error => {
                    let (peer, origin) = (self.peer, &self.address);
                    seldom!(told, Reply => warn, %peer, %listen, %origin, "closing: {error}");
                }
            }
            self.begin_close(now);
        }
    }

    fn begin_close(&mut self, now: Duration) {
        self.closing.get_or_insert(now + LINGER);
    }
}
