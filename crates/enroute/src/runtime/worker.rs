//! A worker: one thread, one epoll, the connections given to it.
//!
//! Each round takes everything that is ready in two passes: all sockets are read and acted on, then
//! all answers are written. So clients are woken one after another and find their answers together,
//! instead of waking up for each: a tenth of what a hit costs, measured with 50 connections.

use std::{
    collections::BTreeSet,
    io, mem,
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use cache::{
    Session, Side,
    filter::{Filter, mongo::Mongo, resp::Resp},
    lease::Ticket,
    stats::Stats,
};
use slab::Slab;
use tokio::sync::mpsc;
use tracing::warn;

use super::{
    Handle, Listener, Shared,
    behind::Behind,
    connection::{Connection, Served},
    connector::Wish,
    inbox::{Inbox, Note, Seat},
    listener::Protocol,
    reactor::{EVENTS_MAX, Reactor},
};

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// Buffers kept for connections to come: as many as are called in one round.
const SPARE_BUFFERS_MAX: usize = EVENTS_MAX;
/// Bytes of them.
const SPARE_BYTES_MAX: usize = 2 << 20;
/// How long to wait before looking again whether there is room to read.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// The token of the inbox; a connection has two, one for each side.
const INBOX: u64 = u64::MAX;

/// A client that was accepted.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) listener: Arc<Listener>,
    pub(super) behind: Behind,
}

/// What the connections of one thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) storage: Handle,
    pub(super) reactor: Reactor,
    pub(super) buffer: Box<[u8]>,
    /// Buffers that sessions write into while they are served.
    spare: Vec<Vec<u8>>,
    /// Clients that are gone and whose writes are waited for.
    pub(super) outliving: usize,
    /// Bytes in them.
    spare_bytes: usize,
    /// Room of each client's buffers; 0 while nothing may be read.
    pub(super) room: usize,
    /// There was none, and clients were not read that may be by now.
    held_back: bool,
    wishes: mpsc::UnboundedSender<Wish>,
}

impl Worker {
    /// Lends the session buffers for what it has to say.
    pub(super) fn lend<F: Filter>(&mut self, session: &mut Session<F>) {
        for side in [Side::Client, Side::Server] {
            self.spare_bytes -= session.output(side).borrow_from(&mut self.spare);
        }
    }

    /// Takes back what has been written out.
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

    /// Looks how much room clients have.
    pub(super) fn look_for_room(&mut self) -> usize {
        self.room = self.shared.clients.room();
        self.held_back |= self.room == 0;
        self.room
    }

    /// Time since the runtime started.
    pub(super) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Tells everybody whose wait was ended by what was done with storage.
    pub(super) fn deliver(&mut self) {
        self.shared.post.deliver(self.storage.woken());
    }

    /// Asks for a connection to an origin; it comes through the inbox.
    pub(super) fn connect(&self, wish: Wish) -> io::Result<()> {
        self.wishes.send(wish).map_err(|_| io::Error::other("the connecting thread has ended"))
    }
}

/// A connection in its place.
struct Seated {
    served: Box<dyn Served>,
    ticket: Ticket,
    /// Its turn has come in this round.
    called: bool,
    /// When it is called although nothing happened, as it stands in the alarms.
    alarm: Option<Duration>,
}

/// All connections of a worker, and whose turn it is.
struct Round {
    index: usize,
    seats: Slab<Seated>,
    called: Vec<usize>,
    alarms: BTreeSet<(Duration, usize)>,
    /// Connections that were ever seated.
    seated: u64,
    /// There was no room to read.
    full: bool,
}

/// Serves until draining is over, or `shared` gives up on it.
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
        held_back: false,
        outliving: 0,
        wishes,
    };
    let (seats, called, alarms) = (Slab::new(), Vec::new(), BTreeSet::new());
    let mut round = Round { index, seats, called, alarms, seated: 0, full: false };
    if let Err(error) = round.serve(&mut worker, &inbox) {
        tracing::error!("a worker stopped: {error}; its clients are closed");
    }
    round.close(&mut worker);
}

impl Round {
    fn serve(&mut self, worker: &mut Worker, inbox: &Inbox) -> io::Result<()> {
        let (mut drains_until, mut notes) = (None, Vec::new());
        loop {
            let now = worker.now();
            if let Some(until) = drains_until {
                if self.seats.is_empty() {
                    return Ok(());
                }
                if now >= until {
                    let limit = worker.shared.limits.drain_timeout;
                    warn!(
                        "closing connections that are still busy after {limit:?} (drain_timeout)"
                    );
                    return Ok(());
                }
            }
            worker.reactor.wait(self.patience(drains_until, now))?;
            let mut noted = false;
            for (token, possible) in worker.reactor.events() {
                if token == INBOX {
                    noted = true;
                } else if let Some(seated) = self.seats.get_mut((token / 2) as usize) {
                    seated.served.notice(side_of(token), possible);
                    call(seated, (token / 2) as usize, &mut self.called);
                }
            }
            if noted {
                inbox.take(&mut notes);
                for note in notes.drain(..) {
                    self.read_note(worker, note);
                }
                if drains_until.is_none() && worker.shared.is_draining() {
                    drains_until = Some(worker.now() + worker.shared.limits.drain_timeout);
                    self.call_all();
                }
            }
            self.call_due(worker.now());
            worker.look_for_room();
            self.take_turns(worker);
            self.make_room(worker);
        }
    }

    /// How long to wait for something to happen: not at all while somebody can go on.
    fn patience(&self, drains_until: Option<Duration>, now: Duration) -> Option<Duration> {
        if !self.called.is_empty() {
            return Some(Duration::ZERO);
        }
        let alarm = self.alarms.first().map(|&(at, _)| at);
        let looks = self.full.then(|| now + ROOM_PAUSE);
        let next = [alarm, drains_until, looks].into_iter().flatten().min();
        next.map(|at| at.saturating_sub(now))
    }

    /// While all clients keep too much, closes those of this worker that keep the most.
    fn make_room(&mut self, worker: &mut Worker) {
        worker.look_for_room();
        if !worker.held_back {
            return;
        }
        let greedy = worker.shared.clients.greedy(self.full);
        while worker.look_for_room() == 0 {
            let held = |(seat, seated): (usize, &Seated)| (seated.served.held_bytes(), seat);
            let most = self.seats.iter().map(held).max().filter(|(bytes, _)| *bytes >= greedy);
            let Some((_, seat)) = most else { break };
            self.seats[seat].served.shed(worker);
            self.leave(worker, seat);
        }
        self.full = worker.room == 0;
        worker.held_back = self.full;
        if self.full {
            // Clients of other workers keep it.
            worker.shared.post.wake_all();
        } else {
            self.call_all();
        }
    }

    fn read_note(&mut self, worker: &mut Worker, note: Note) {
        let ticket = match &note {
            Note::Accepted(_) => None,
            Note::Connected(ticket, _) | Note::Filled(ticket) | Note::Confirmed(ticket) => {
                Some(*ticket)
            }
        };
        let seat = ticket.map(|ticket| Seat::of(ticket).number);
        // Who has left since is told nothing.
        let seated = seat.and_then(|seat| self.seats.get_mut(seat));
        let seated = seated.filter(|seated| Some(seated.ticket) == ticket);
        match (note, seated, seat) {
            (Note::Accepted(accepted), ..) => self.seat(worker, *accepted),
            (Note::Connected(_, connected), Some(seated), Some(seat)) => {
                seated.served.connected(worker, connected, token(seat, Side::Server));
                call(seated, seat, &mut self.called);
            }
            (Note::Confirmed(_), Some(seated), Some(seat)) => {
                seated.served.confirmed();
                call(seated, seat, &mut self.called);
            }
            (Note::Filled(_), Some(seated), Some(seat)) => {
                seated.served.filled();
                call(seated, seat, &mut self.called);
            }
            _ => {}
        }
    }

    fn seat(&mut self, worker: &mut Worker, accepted: Accepted) {
        let entry = self.seats.vacant_entry();
        let number = entry.key();
        let ticket = Seat { worker: self.index, number }.ticket(self.seated);
        self.seated += 1;
        let token = token(number, Side::Client);
        let (peer, listener) = (accepted.peer, Arc::clone(&accepted.listener));
        let served: io::Result<Box<dyn Served>> = match accepted.behind.protocol.clone() {
            Protocol::Mongo(settings) => {
                Connection::boxed(worker, accepted, ticket, token, Mongo::new(settings))
            }
            Protocol::Resp(settings) => {
                Connection::boxed(worker, accepted, ticket, token, Resp::new(settings))
            }
        };
        match served {
            Ok(served) => {
                entry.insert(Seated { served, ticket, called: true, alarm: None });
                self.called.push(number);
            }
            Err(error) => {
                warn!(%peer, "connection closed: cannot set up its socket: {error}");
                listener.left();
            }
        }
    }

    fn call_all(&mut self) {
        for (seat, seated) in &mut self.seats {
            call(seated, seat, &mut self.called);
        }
    }

    fn call_due(&mut self, now: Duration) {
        while let Some(&(at, seat)) = self.alarms.first().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, seat));
            if let Some(seated) = self.seats.get_mut(seat) {
                seated.alarm = None;
                call(seated, seat, &mut self.called);
            }
        }
    }

    /// Everybody who was called reads, then everybody writes; who can go on is called again.
    fn take_turns(&mut self, worker: &mut Worker) {
        let called = mem::take(&mut self.called);
        for &seat in &called {
            if let Some(seated) = self.seats.get_mut(seat) {
                seated.served.read(worker);
            }
        }
        for &seat in &called {
            let Some(seated) = self.seats.get_mut(seat) else { continue };
            seated.served.write(worker);
            seated.called = false;
            if seated.served.is_over(worker) {
                self.leave(worker, seat);
                continue;
            }
            if seated.served.can_go_on() {
                call(seated, seat, &mut self.called);
            }
            let alarm = seated.served.alarm();
            if alarm != seated.alarm {
                if let Some(old) = mem::replace(&mut seated.alarm, alarm) {
                    self.alarms.remove(&(old, seat));
                }
                self.alarms.extend(alarm.map(|at| (at, seat)));
            }
        }
        if self.called.is_empty() {
            // Its room serves again.
            self.called = called;
            self.called.clear();
        }
    }

    fn leave(&mut self, worker: &mut Worker, seat: usize) {
        let Seated { mut served, alarm, .. } = self.seats.remove(seat);
        if let Some(at) = alarm {
            self.alarms.remove(&(at, seat));
        }
        served.close(worker);
    }

    fn close(&mut self, worker: &mut Worker) {
        for mut seated in self.seats.drain() {
            seated.served.close(worker);
        }
    }
}

fn call(seated: &mut Seated, seat: usize, called: &mut Vec<usize>) {
    if !mem::replace(&mut seated.called, true) {
        called.push(seat);
    }
}

fn token(seat: usize, side: Side) -> u64 {
    seat as u64 * 2 + u64::from(side == Side::Server)
}

fn side_of(token: u64) -> Side {
    if token.is_multiple_of(2) { Side::Client } else { Side::Server }
}
