//! A worker: one thread, one epoll, and the connections assigned to it.
//!
//! Each round handles all ready sockets in two passes: it reads all of them, then writes all
//! replies. A client process that has several connections thus wakes up once for several replies,
//! which saves a tenth of the cost of a hit, measured with 50 connections.

use std::{
    collections::BTreeSet,
    io, mem,
    net::{SocketAddr, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use cache::{
    Session, Side,
    filter::{Filter, dynamodb::DynamoDb, memcache::Memcache, mongo::Mongo, resp::Resp},
    stats::Stats,
};
use reactor::{Drain, Events, Reactor, Seats, Token};
use tokio::sync::mpsc;
use tracing::warn;

use super::{
    Handle, Listener, Shared,
    behind::Behind,
    connection::{Connection, Served},
    connector::Wish,
    inbox::{self, Inbox, Note},
    listener::Protocol,
    tls::Shaking,
};

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Maximum number of events of one round.
const EVENTS_MAX: usize = 256;
/// Maximum number of spare buffers: as many as connections in one round.
const SPARE_BUFFERS_MAX: usize = EVENTS_MAX;
/// Maximum bytes of spare buffers.
const SPARE_BYTES_MAX: usize = 2 << 20;
/// Interval between checks whether clients may be read again.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// The token of the inbox. A connection has a token for each of its sockets, tagged with these.
const INBOX: u64 = u64::MAX;
/// Tag of the client's socket.
pub(super) const CLIENT: u16 = 0;
/// Tag of the socket of the origin; those of further servers follow.
pub(super) const SERVER: u16 = 1;

/// A client that was accepted.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) listener: Arc<Listener>,
    pub(super) behind: Behind,
    /// Its place among incomplete handshakes.
    pub(super) shaking: Option<Shaking>,
}

/// State shared by the connections of one thread.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) storage: Handle,
    pub(super) reactor: Reactor,
    pub(super) buffer: Box<[u8]>,
    /// Spare output buffers, lent to sessions while they are served.
    spare: Vec<Vec<u8>>,
    /// Number of disconnected clients for whose replies to writes it waits.
    pub(super) outliving: usize,
    /// Bytes of the spare buffers.
    spare_bytes: usize,
    /// Buffer limit of each client; 0 while nothing may be read.
    pub(super) room: usize,
    /// Time spent on TLS handshakes in this round.
    pub(super) shaking: Duration,
    /// Some clients were not read because the limit was 0.
    held_back: bool,
    wishes: mpsc::UnboundedSender<Wish>,
}

impl Worker {
    /// Lends the session buffers for its output.
    pub(super) fn lend<F: Filter>(&mut self, session: &mut Session<F>) {
        for side in [Side::Client, Side::Server] {
            self.spare_bytes -= session.output(side).borrow_from(&mut self.spare);
        }
    }

    /// Takes back the buffers that were written out.
    pub(super) fn take_back<F: Filter>(&mut self, session: &mut Session<F>) {
        for side in [Side::Client, Side::Server] {
            if let Some(buffer) = session.output(side).give_back()
                && self.spare.len() < SPARE_BUFFERS_MAX
                && self.spare_bytes + buffer.capacity() <= SPARE_BYTES_MAX
            {
                self.spare_bytes += buffer.capacity();
                self.spare.push(buffer);
            }
        }
    }

    /// Updates the buffer limit of clients.
    pub(super) fn look_for_room(&mut self) -> usize {
        self.room = self.shared.clients.room();
        self.held_back |= self.room == 0;
        self.room
    }

    /// Time since the runtime started.
    pub(super) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Notifies the sessions whose wait was ended by a storage operation.
    pub(super) fn deliver(&mut self) {
        inbox::deliver(&self.shared.post, self.storage.woken());
    }

    /// Requests a connection to an origin, which is returned through the inbox.
    pub(super) fn connect(&self, wish: Wish) -> io::Result<()> {
        self.wishes.send(wish).map_err(|_| io::Error::other("the connecting thread has ended"))
    }
}

/// A connection, and its entry in the alarms.
struct Seated {
    served: Box<dyn Served>,
    /// Time at which it is called without an event, as registered in the alarms.
    alarm: Option<Duration>,
}

/// All connections of a worker, and those scheduled next.
struct Round {
    index: u16,
    seats: Seats<Seated>,
    alarms: BTreeSet<(Duration, Token)>,
    /// The buffer limit allowed no reads.
    full: bool,
    /// Moves of origins that its connections have been called for.
    moves: u64,
}

/// Serves until draining has finished or its time limit has passed.
pub(super) fn run(
    shared: Arc<Shared>,
    stats: Arc<Stats>,
    wishes: mpsc::UnboundedSender<Wish>,
    index: usize,
) {
    let inbox = Arc::clone(shared.post.inbox(index));
    let reactor = Reactor::new().and_then(|reactor| {
        reactor.watch(&*inbox, INBOX)?;
        Ok(reactor)
    });
    let reactor = match reactor {
        Ok(reactor) => reactor,
        Err(error) => {
            tracing::error!("cannot start a worker: {error}");
            return;
        }
    };
    let storage = Handle::new(Arc::clone(&shared.shards), stats);
    let buffer = vec![0; READ_BYTES].into_boxed_slice();
    let mut worker = Worker {
        shared,
        storage,
        reactor,
        buffer,
        spare: Vec::new(),
        spare_bytes: 0,
        room: usize::MAX,
        shaking: Duration::ZERO,
        held_back: false,
        outliving: 0,
        wishes,
    };
    let (seats, alarms) = (Seats::default(), BTreeSet::new());
    let mut round = Round { index: index as u16, seats, alarms, full: false, moves: 0 };
    if let Err(error) = round.serve(&mut worker, &inbox) {
        tracing::error!("a worker stopped: {error}; its clients are closed");
    }
    for mut seated in round.seats.into_values() {
        seated.served.close(&mut worker);
    }
}

impl Round {
    fn serve(&mut self, worker: &mut Worker, inbox: &Inbox) -> io::Result<()> {
        let limit = worker.shared.limits.drain_timeout;
        let (mut drain, mut notes) = (Drain::new(limit), Vec::new());
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            if let Some(left) = drain.left() {
                if self.seats.is_empty() {
                    return Ok(());
                }
                if left.is_zero() {
                    warn!(
                        "closing connections that are still busy after {limit:?} (drain_timeout)"
                    );
                    return Ok(());
                }
            }
            worker.reactor.wait(&mut events, self.patience(&drain, worker))?;
            let mut noted = false;
            for (event, possible) in events.iter() {
                if event == INBOX {
                    noted = true;
                    continue;
                }
                let (token, tag) = Token::of(event);
                if let Some(seated) = self.seats.call(token) {
                    seated.served.notice(tag, possible);
                }
            }
            if noted {
                inbox.take(&mut notes);
                for note in notes.drain(..) {
                    self.read_note(worker, note);
                }
                if worker.shared.is_draining() && drain.begin() {
                    self.seats.call_all();
                }
                let moves = worker.shared.moves.load(Relaxed);
                if mem::replace(&mut self.moves, moves) != moves {
                    self.seats.call_all();
                }
            }
            self.call_due(worker);
            worker.look_for_room();
            self.take_turns(worker);
            self.make_room(worker);
        }
    }

    /// Time to wait for events: zero while a connection can make progress.
    fn patience(&self, drain: &Drain, worker: &Worker) -> Option<Duration> {
        if self.seats.is_called() {
            return Some(Duration::ZERO);
        }
        let alarm = self.alarms.first().map(|&(at, _)| at.saturating_sub(worker.now()));
        let looks = self.full.then_some(ROOM_PAUSE);
        [alarm, drain.left(), looks].into_iter().flatten().min()
    }

    /// While the buffers of all clients exceed their limit, closes the clients of this worker with
    /// the largest buffers.
    fn make_room(&mut self, worker: &mut Worker) {
        worker.look_for_room();
        if !worker.held_back {
            return;
        }
        let greedy = worker.shared.clients.greedy(self.full);
        while worker.look_for_room() == 0 {
            let held = |(token, seated): (Token, &Seated)| (seated.served.held_bytes(), token);
            let most = self.seats.iter().map(held).max().filter(|(bytes, _)| *bytes >= greedy);
            let Some((_, token)) = most else { break };
            if let Some(seated) = self.seats.get_mut(token) {
                seated.served.shed(worker);
            }
            self.leave(worker, token);
        }
        self.full = worker.room == 0;
        worker.held_back = self.full;
        if self.full {
            // The largest buffers belong to clients of other workers.
            worker.shared.post.wake_all();
        } else {
            self.seats.call_all();
        }
    }

    fn read_note(&mut self, worker: &mut Worker, note: Note) {
        let ticket = match note {
            Note::Accepted(accepted) => return self.seat(worker, *accepted),
            Note::Connected(wanted, _) | Note::Confirmed(wanted) => wanted.ticket,
            Note::Filled(ticket) => ticket,
        };
        let (token, _) = Token::of(ticket.0);
        // The connection has closed since: there is nothing to notify.
        let Some(Seated { served, .. }) = self.seats.call(token) else { return };
        match note {
            Note::Connected(wanted, connected) => {
                served.connected(worker, wanted, connected, token);
            }
            Note::Confirmed(wanted) => served.confirmed(wanted),
            Note::Filled(_) => served.filled(),
            Note::Accepted(_) => {}
        }
    }

    fn seat(&mut self, worker: &mut Worker, accepted: Accepted) {
        let (peer, listener) = (accepted.peer, Arc::clone(&accepted.listener));
        let index = self.index;
        let seated = self.seats.seat(|token| {
            let ticket = inbox::ticket(index, token);
            let token = token.tagged(CLIENT);
            let served = match accepted.behind.protocol.clone() {
                Protocol::Mongo(settings) => {
                    Connection::boxed(worker, accepted, ticket, token, Mongo::new(settings))
                }
                Protocol::Resp(settings) => {
                    Connection::boxed(worker, accepted, ticket, token, Resp::new(settings))
                }
                Protocol::Memcache(settings) => {
                    Connection::boxed(worker, accepted, ticket, token, Memcache::new(settings))
                }
                Protocol::DynamoDb(settings) => {
                    Connection::boxed(worker, accepted, ticket, token, DynamoDb::new(settings))
                }
            };
            io::Result::Ok(Seated { served: served?, alarm: None })
        });
        match seated {
            Ok(token) => {
                self.seats.call(token);
            }
            Err(error) => {
                listener.report_socket(peer, &error);
                listener.left();
            }
        }
    }

    fn call_due(&mut self, worker: &Worker) {
        if self.alarms.is_empty() {
            return;
        }
        let now = worker.now();
        while let Some(&(at, token)) = self.alarms.first().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, token));
            if let Some(seated) = self.seats.call(token) {
                seated.alarm = None;
            }
        }
    }

    /// Lets all scheduled connections read, then write; schedules those again that can make
    /// progress.
    fn take_turns(&mut self, worker: &mut Worker) {
        worker.shaking = Duration::ZERO;
        let called = self.seats.take_called();
        for &token in &called {
            if let Some(seated) = self.seats.get_mut(token) {
                seated.served.read(worker);
            }
        }
        for &token in &called {
            let Some(seated) = self.seats.end_turn(token) else { continue };
            seated.served.write(worker);
            if seated.served.is_over(worker) {
                self.leave(worker, token);
                continue;
            }
            let alarm = seated.served.alarm();
            if alarm != seated.alarm {
                if let Some(old) = mem::replace(&mut seated.alarm, alarm) {
                    self.alarms.remove(&(old, token));
                }
                self.alarms.extend(alarm.map(|at| (at, token)));
            }
            if seated.served.can_go_on() {
                self.seats.call(token);
            }
        }
        self.seats.end_round(called);
    }

    fn leave(&mut self, worker: &mut Worker, token: Token) {
        let Some(Seated { mut served, alarm }) = self.seats.leave(token) else { return };
        if let Some(at) = alarm {
            self.alarms.remove(&(at, token));
        }
        served.close(worker);
    }
}
