//! A worker: one thread, one event loop, the connections dealt to it.
//!
//! A round of the loop executes what all ready clients have sent, then gives the shards' commands
//! to the disk, then writes all answers: writes of one round share their way to the disk, and
//! clients are woken together.

mod clients;

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use db::conversation::{Bounds, Parked, Turn};
use platform::tls;
use reactor::{Acceptor, Drain, Events, Inbox, Reactor, Seats, Token};
use store::Ring;

use super::{
    Locks, Shared,
    connection::Connection,
    disk::{self, Begun, By, Ended},
};

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// Events taken in one round.
const EVENTS_MAX: usize = 512;
/// Clients whose answers are written between two readings of the clock.
const WRITTEN_MAX: usize = 8;
/// Retry interval of a connection that waits for the disk to catch up.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// Maximum interval of checks for idle clients and the end.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Time for clients to read the remaining output at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

const LISTENER: u64 = u64::MAX;
const INBOX: u64 = u64::MAX - 1;
const RING: u64 = u64::MAX - 2;

/// A message of another thread to a worker.
pub(super) enum Note {
    /// A client to be served.
    Accepted(TcpStream, SocketAddr),
    /// This client can make progress.
    Look(Token),
}

/// The clients of one thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    inbox: Arc<Inbox<Note>>,
    index: usize,
    reactor: Reactor,
    acceptor: Option<Acceptor>,
    tls: Option<Arc<tls::Server>>,
    bounds: Bounds,
    /// Connections that may have input or output.
    seats: Seats<Connection>,
    buffer: Vec<u8>,
    /// Connections that wait for a turn, for the disk to catch up, or for a time.
    waiting: Vec<Token>,
    /// Connections whose output waits for the disk.
    held: Vec<Token>,
    touched: Vec<bool>,
    /// Commands done in this round, and lookups answered at once.
    done: u64,
    at_once: u64,
    /// When this round began.
    round: Duration,
    /// Commands whose answers were just written, and when the first of each client was read.
    written: Vec<(u64, Duration)>,
    /// The ring for disk reads, if the system allows one.
    ring: Option<Ring<Begun>>,
    ended: Vec<Ended>,
    /// The worker that gets the next client.
    next: usize,
    looked: Duration,
    began: Instant,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        index: usize,
        listener: Option<TcpListener>,
        tls: Option<Arc<tls::Server>>,
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let inbox = Arc::clone(shared.post.inbox(index));
        reactor.watch(&*inbox, INBOX)?;
        let acceptor = |listener| Acceptor::new(listener, &reactor, LISTENER);
        let acceptor = listener.map(acceptor).transpose()?;
        let ring = Ring::new()
            .inspect_err(|error| {
                tracing::debug!("io_uring is unavailable, disk-reader threads are used: {error}");
            })
            .ok();
        if let Some(ring) = &ring {
            reactor.watch_input(ring, RING)?;
        }
        let bounds = Bounds::of(&shared.server);
        let touched = vec![false; shared.locks.len()];
        Ok(Self {
            shared,
            inbox,
            index,
            reactor,
            acceptor,
            tls,
            bounds,
            seats: Seats::default(),
            buffer: vec![0; READ_BYTES],
            waiting: Vec::new(),
            held: Vec::new(),
            touched,
            done: 0,
            at_once: 0,
            round: Duration::ZERO,
            written: Vec::with_capacity(WRITTEN_MAX),
            ring,
            ended: Vec::new(),
            next: 0,
            looked: Duration::ZERO,
            began: Instant::now(),
        })
    }

    /// Serves until shutdown is requested and every client has received its remaining output.
    pub(super) fn run(mut self) {
        let (mut events, mut notes) = (Events::with_capacity(EVENTS_MAX), Vec::new());
        let mut drain = Drain::new(DRAIN_TIMEOUT);
        loop {
            if let Err(error) = self.wait(&mut events) {
                tracing::error!(
                    "a worker stopped: epoll_wait failed: {error}; its clients are closed"
                );
                return;
            }
            self.round = self.began.elapsed();
            self.take_reads();
            self.inbox.take(&mut notes);
            for note in notes.drain(..) {
                self.heed(note);
            }
            self.notice(&events);
            self.accept();
            self.resume();
            let called = self.seats.take_called();
            for &token in &called {
                self.receive(token);
            }
            self.pump();
            self.send(called);
            // When the round began: the clock is not read again.
            if self.round.saturating_sub(self.looked) >= LOOK_PAUSE {
                self.looked = self.round;
                self.close_idle();
                self.bounds = Bounds::of(&self.shared.server);
            }
            if self.shared.is_ending() {
                self.acceptor = None;
                drain.begin();
                self.close_all_where(Connection::is_idle);
                if self.seats.is_empty() || drain.is_over() {
                    self.close_all_where(|_| true);
                    self.end_reads();
                    return;
                }
            }
        }
    }

    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let hurries = self.shared.is_ending() || self.ring.as_ref().is_some_and(Ring::must_submit);
        let mut timeout = if hurries { BUSY_PAUSE } else { LOOK_PAUSE };
        if self.seats.is_called() {
            timeout = Duration::ZERO;
        }
        if let Some(patience) = self.acceptor.as_ref().and_then(Acceptor::patience) {
            timeout = timeout.min(patience);
        }
        for &token in &self.waiting {
            let Some(connection) = self.seats.get(token) else { continue };
            timeout = timeout.min(match connection.conversation.parked() {
                Parked::Turn => Duration::ZERO,
                Parked::Busy => BUSY_PAUSE,
                Parked::Until(at) => at.saturating_sub(self.began.elapsed()),
                Parked::No | Parked::Disk => continue,
            });
        }
        self.reactor.wait(events, Some(timeout))
    }

    fn heed(&mut self, note: Note) {
        match note {
            Note::Accepted(stream, peer) => self.begin(stream, peer),
            Note::Look(token) => {
                let conversation =
                    self.seats.get_mut(token).map(|connection| &mut connection.conversation);
                if let Some(conversation) = conversation
                    && conversation.parked() == Parked::Disk
                    && conversation.session().client().is_ready()
                {
                    conversation.resume();
                }
                self.proceed(token);
            }
        }
    }

    /// Serves connections with events, and those whose answers may be durable now.
    fn notice(&mut self, events: &Events) {
        for (event, possible) in events.iter() {
            match event {
                INBOX | RING => {}
                LISTENER => self.acceptor.iter_mut().for_each(Acceptor::notice),
                event => {
                    if let Some(connection) = self.seats.call(Token::of(event).0) {
                        connection.channel.notice(possible);
                    }
                }
            }
        }
        for token in self.held.drain(..) {
            self.seats.call(token);
        }
    }

    /// Reads and executes requests of a connection. While it cannot execute commands, data stay in
    /// the socket.
    fn receive(&mut self, token: Token) {
        let Some(connection) = self.seats.get(token) else { return };
        if connection.channel.is_broken() {
            self.close(token);
        } else if connection.may_receive() && !self.shared.is_ending() {
            self.take_turn(token, Connection::receive);
        }
    }

    /// Executes buffered requests of a connection.
    fn proceed(&mut self, token: Token) {
        self.take_turn(token, |connection, _, shared, turn| {
            connection.proceed(shared, turn);
            true
        });
    }

    /// Runs `act` for a connection; closes it if its client has disconnected.
    fn take_turn(
        &mut self,
        token: Token,
        act: impl FnOnce(&mut Connection, &mut [u8], &Shared, &mut Turn<'_, Locks>) -> bool,
    ) {
        let Some(connection) = self.seats.call(token) else { return };
        let shared = &*self.shared;
        let mut turn = Turn {
            server: &shared.server,
            shards: &*shared.locks,
            is_alone: shared.post.len() == 1,
            lookups: &shared.lookups,
            latencies: &shared.latencies[self.index],
            bounds: &self.bounds,
            touched: &mut self.touched,
            done: &mut self.done,
            at_once: &mut self.at_once,
            clock: &|| self.began.elapsed(),
            began: self.round,
            now: shared.now(),
        };
        if !act(connection, &mut self.buffer, shared, &mut turn) {
            return self.close(token);
        }
        let parked = connection.conversation.parked();
        let waits = matches!(parked, Parked::Turn | Parked::Busy | Parked::Until(_));
        if waits && !self.waiting.contains(&token) {
            self.waiting.push(token);
        }
        self.count(token);
    }

    /// Serves connections that waited for their turn or for a time.
    fn resume(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let now = self.began.elapsed();
        for token in std::mem::take(&mut self.waiting) {
            let Some(connection) = self.seats.get_mut(token) else { continue };
            let conversation = &mut connection.conversation;
            match conversation.parked() {
                Parked::Until(at) if at > now => {
                    self.waiting.push(token);
                    continue;
                }
                Parked::Turn | Parked::Busy | Parked::Until(_) => conversation.resume(),
                Parked::No | Parked::Disk => continue,
            }
            self.proceed(token);
        }
    }

    /// Submits the disk commands of this round.
    fn pump(&mut self) {
        self.shared.lookups.note_at_once(std::mem::take(&mut self.at_once));
        self.shared.server.stats.commands.fetch_add(std::mem::take(&mut self.done), Relaxed);
        for index in 0..self.touched.len() {
            if std::mem::take(&mut self.touched[index]) {
                let mut shard = self.shared.locks.hold(index);
                let by = self.ring.as_mut().map_or(By::Others, By::Ring);
                self.shared.disk.pump_by(by, index, &mut shard, self.shared.now());
            }
        }
        if let Some(ring) = &mut self.ring {
            disk::submit(ring);
        }
    }

    /// Passes its completed reads to the shards.
    fn take_reads(&mut self) {
        if let Some(ring) = &mut self.ring {
            disk::take_reads(&self.shared, ring, &mut self.ended);
        }
    }

    /// Waits for its reads: clients of other workers may wait for them, too.
    fn end_reads(&mut self) {
        while let Some(ring) = self.ring.as_mut().filter(|ring| ring.is_busy()) {
            if let Err(error) = ring.wait() {
                tracing::debug!("io_uring: cannot wait for completions: {error}");
            }
            self.take_reads();
        }
    }

    /// Writes waiting output.
    fn send(&mut self, called: Vec<Token>) {
        // Before reading the durable position, so that no wake-up is missed.
        let holding = called
            .iter()
            .filter_map(|&token| self.seats.get(token))
            .any(|connection| connection.conversation.is_held());
        self.shared.disk.durable.hold(self.index, holding);
        for &token in &called {
            self.send_to(token);
            if self.written.len() == WRITTEN_MAX {
                self.time_written();
            }
        }
        self.time_written();
        self.seats.end_round(called);
    }

    /// Notes the latency of the commands whose answers were just written: one reading of the clock
    /// for all.
    fn time_written(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let now = self.began.elapsed();
        for (count, since) in self.written.drain(..) {
            self.shared.latencies[self.index].prompt.record(now.saturating_sub(since), count);
        }
    }

    fn send_to(&mut self, token: Token) {
        let Some(connection) = self.seats.end_turn(token) else { return };
        let full = !connection.conversation.may_execute();
        let sent = connection.send(&self.shared);
        self.written.extend(connection.conversation.take_prompt());
        match sent {
            Err(error) => {
                tracing::debug!("client connection failed: {error}");
                self.close(token);
            }
            Ok(()) if connection.is_over() => self.close(token),
            Ok(()) => {
                if connection.conversation.is_held() {
                    self.held.push(token);
                }
                if full && connection.conversation.may_execute() {
                    // Its output is below the limit again.
                    connection.conversation.wait_for_turn();
                    self.waiting.push(token);
                } else if connection.may_receive() && !self.shared.is_ending() {
                    self.seats.call(token);
                }
            }
        }
        self.count(token);
    }
}
