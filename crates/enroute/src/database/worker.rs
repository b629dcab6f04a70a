//! A worker: one thread, one event loop, the connections dealt to it.
//!
//! A round of the loop executes what all ready clients have sent, then gives the shards' commands
//! to the disk, then writes all answers: writes of one round share their way to the disk, and
//! clients are woken together.

mod clients;

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use rustix::{
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    io::Errno,
    time::Timespec,
};
use tracing::warn;
use wire::resp::Limits;

use super::{
    Shared, Tls,
    connection::{Connection, OUTPUT_BYTES_MAX, Parked, Turn},
    disk::{self, By, Ended},
    ring::Ring,
};
use crate::inbox::Inbox;

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// Events taken in one round.
const EVENTS_MAX: usize = 512;
/// Between two tries of a connection that waits for the disk to catch up.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// Longest time between two looks at idle clients and the end.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How long clients may take to hear what is left for them at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

const LISTENER: u64 = u64::MAX;
const INBOX: u64 = u64::MAX - 1;
const RING: u64 = u64::MAX - 2;

/// What a worker is told by other threads.
pub(super) enum Note {
    /// A client to be served.
    Accepted(TcpStream, SocketAddr),
    /// Something is to be done for this client.
    Look(u64),
}

/// One thread's part of the clients.
pub(super) struct Worker {
    shared: Arc<Shared>,
    inbox: Arc<Inbox<Note>>,
    index: usize,
    epoll: OwnedFd,
    listener: Option<TcpListener>,
    tls: Option<Tls>,
    limits: Limits,
    limits_before_login: Limits,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Slots that were closed in this round: events of it may still name them.
    closed: Vec<usize>,
    slots: HashMap<u64, usize>,
    buffer: Vec<u8>,
    /// Connections that may have something to hear.
    listed: Vec<usize>,
    /// Connections that wait for a turn, for the disk to catch up, or for a time.
    waiting: Vec<usize>,
    /// Connections whose output waits for the disk.
    held: Vec<usize>,
    touched: Vec<bool>,
    /// Commands done in this round, and lookups answered at once.
    done: u64,
    at_once: u64,
    /// For its reads, if the system allows one.
    ring: Option<Ring>,
    ended: Vec<Ended>,
    /// Longest output that waits for one client, in bytes.
    output_bytes_max: usize,
    /// The worker that gets the next client.
    next: usize,
    looked: Instant,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        index: usize,
        listener: Option<TcpListener>,
        tls: Option<Tls>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let inbox = Arc::clone(&shared.inboxes[index]);
        let edges = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &*inbox, EventData::new_u64(INBOX), edges)?;
        if let Some(listener) = &listener {
            epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        }
        let ring = Ring::new()
            .inspect_err(|error| {
                tracing::debug!("io_uring is unavailable, disk-reader threads are used: {error}");
            })
            .ok();
        if let Some(ring) = &ring {
            epoll::add(&epoll, ring, EventData::new_u64(RING), EventFlags::IN)?;
        }
        let value_bytes_max = store::elastic::Config::default().value_bytes_max;
        let limits = Limits { bulk_bytes_max: value_bytes_max, ..Limits::default() };
        let limits_before_login = limits.before_login();
        let touched = vec![false; shared.locks.len()];
        Ok(Self {
            shared,
            inbox,
            index,
            epoll,
            listener,
            tls,
            limits,
            limits_before_login,
            connections: Vec::new(),
            free: Vec::new(),
            closed: Vec::new(),
            slots: HashMap::new(),
            buffer: vec![0; READ_BYTES],
            listed: Vec::new(),
            waiting: Vec::new(),
            held: Vec::new(),
            touched,
            done: 0,
            at_once: 0,
            ring,
            ended: Vec::new(),
            output_bytes_max: OUTPUT_BYTES_MAX,
            next: 0,
            looked: Instant::now(),
        }
        .limited())
    }

    /// With what memory and the number of clients allow each of them now.
    fn limited(mut self) -> Self {
        self.limit_clients();
        self
    }

    /// Serves until the end was asked for and every client has heard what was left for it.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut notes = Vec::new();
        let mut drain_until = None;
        loop {
            events.clear();
            if let Err(error) = self.wait(&mut events) {
                tracing::error!(
                    "a worker stopped: epoll_wait failed: {error}; its clients are closed"
                );
                return;
            }
            self.take_reads();
            self.inbox.take(&mut notes);
            for note in notes.drain(..) {
                self.heed(note);
            }
            for event in &events {
                self.serve(*event);
            }
            self.resume();
            self.pump();
            self.send();
            self.free.append(&mut self.closed);
            if self.looked.elapsed() >= LOOK_PAUSE {
                self.looked = Instant::now();
                self.close_idle();
                self.limit_clients();
            }
            if self.shared.is_ending() {
                self.listener = None;
                let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_TIMEOUT);
                self.close_all_where(Connection::is_idle);
                if self.slots.is_empty() || Instant::now() > until {
                    self.close_all_where(|_| true);
                    self.end_reads();
                    return;
                }
            }
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let hurries = self.shared.is_ending() || self.ring.as_ref().is_some_and(Ring::must_submit);
        let mut timeout = if hurries { BUSY_PAUSE } else { LOOK_PAUSE };
        let now = Instant::now();
        for &slot in &self.waiting {
            let Some(connection) = &self.connections[slot] else { continue };
            timeout = timeout.min(match connection.parked {
                Parked::Turn => Duration::ZERO,
                Parked::Busy => BUSY_PAUSE,
                Parked::Until(at) => at.saturating_duration_since(now),
                Parked::No | Parked::Disk => continue,
            });
        }
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn heed(&mut self, note: Note) {
        match note {
            Note::Accepted(stream, peer) => self.begin(stream, peer),
            Note::Look(id) => {
                let Some(&slot) = self.slots.get(&id) else { return };
                if let Some(connection) = &mut self.connections[slot]
                    && connection.parked == Parked::Disk
                    && connection.session.client().is_ready()
                {
                    connection.parked = Parked::No;
                }
                self.proceed(slot);
            }
        }
    }

    fn serve(&mut self, event: Event) {
        match event.data.u64() {
            INBOX | RING => {}
            LISTENER => self.accept(),
            slot => {
                let (slot, flags) = (slot as usize, event.flags);
                if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
                    self.close(slot);
                } else if flags.contains(EventFlags::OUT) {
                    self.list(slot);
                }
                if flags.contains(EventFlags::IN) {
                    self.receive(slot);
                }
            }
        }
    }

    fn receive(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        if !connection.may_execute() || self.shared.is_ending() {
            // What it says meanwhile stays in the socket.
            connection.reads = false;
            self.ask(slot);
            return;
        }
        let mut turn = Turn {
            shared: &self.shared,
            limits: &self.limits,
            limits_before_login: &self.limits_before_login,
            touched: &mut self.touched,
            done: &mut self.done,
            at_once: &mut self.at_once,
            now: self.shared.now(),
            output_bytes_max: self.output_bytes_max,
        };
        if connection.receive(&mut self.buffer, &mut turn) {
            self.acted(slot);
        } else {
            self.close(slot);
        }
    }

    /// Executes what a connection had said before.
    fn proceed(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        let mut turn = Turn {
            shared: &self.shared,
            limits: &self.limits,
            limits_before_login: &self.limits_before_login,
            touched: &mut self.touched,
            done: &mut self.done,
            at_once: &mut self.at_once,
            now: self.shared.now(),
            output_bytes_max: self.output_bytes_max,
        };
        connection.proceed(&mut turn);
        self.acted(slot);
    }

    /// Notes what a connection that was given its turn is waiting for.
    fn acted(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        let waits = matches!(connection.parked, Parked::Turn | Parked::Busy | Parked::Until(_));
        if waits && !self.waiting.contains(&slot) {
            self.waiting.push(slot);
        }
        if !connection.reads && connection.may_execute() {
            connection.reads = true;
            self.ask(slot);
        }
        self.list(slot);
        self.count(slot);
    }

    /// Gives connections that waited for their turn, or for a time, another one.
    fn resume(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        for slot in std::mem::take(&mut self.waiting) {
            let Some(Some(connection)) = self.connections.get_mut(slot) else { continue };
            match connection.parked {
                Parked::Until(at) if at > now => {
                    self.waiting.push(slot);
                    continue;
                }
                Parked::Turn | Parked::Busy | Parked::Until(_) => connection.parked = Parked::No,
                Parked::No | Parked::Disk => continue,
            }
            self.proceed(slot);
        }
    }

    /// Gives the disk what this round asks of it.
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
            ring.submit();
        }
    }

    /// Gives the shards what its reads have brought.
    fn take_reads(&mut self) {
        if let Some(ring) = &mut self.ring {
            disk::take_reads(&self.shared, ring, &mut self.ended);
        }
    }

    /// Waits for its reads: clients of other workers may wait for them, too.
    fn end_reads(&mut self) {
        while let Some(ring) = self.ring.as_mut().filter(|ring| ring.is_busy()) {
            ring.wait();
            self.take_reads();
        }
    }

    fn list(&mut self, slot: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(slot)
            && !std::mem::replace(&mut connection.listed, true)
        {
            self.listed.push(slot);
        }
    }

    /// Writes what there is to be heard.
    fn send(&mut self) {
        for slot in std::mem::take(&mut self.held) {
            self.list(slot);
        }
        // Before looking what is durable, so that no news of it goes to nobody.
        let holding = self
            .listed
            .iter()
            .any(|&slot| self.connections[slot].as_ref().is_some_and(Connection::is_held));
        self.shared.disk.durable.hold(self.index, holding);
        let mut listed = std::mem::take(&mut self.listed);
        for slot in listed.drain(..) {
            self.send_to(slot);
        }
        // What was listed meanwhile has another turn; the buffer is kept.
        listed.append(&mut self.listed);
        self.listed = listed;
    }

    fn send_to(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        connection.listed = false;
        let full = !connection.may_execute();
        match connection.send(&self.shared) {
            Err(error) => {
                tracing::debug!("client connection failed: {error}");
                self.close(slot);
            }
            Ok(_) if connection.is_over() => self.close(slot),
            Ok(taken) => {
                if connection.is_held() {
                    self.held.push(slot);
                }
                if connection.writes == taken {
                    connection.writes = !taken;
                    self.ask(slot);
                }
                let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
                if full && connection.may_execute() {
                    // There is room for answers again.
                    connection.parked = Parked::Turn;
                    self.waiting.push(slot);
                }
            }
        }
        self.count(slot);
    }

    /// Tells the system which events of a connection are of interest.
    fn ask(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get(slot) else { return };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, connection.reads);
        flags.set(EventFlags::OUT, connection.writes);
        if let Err(error) =
            epoll::modify(&self.epoll, connection, EventData::new_u64(slot as u64), flags)
        {
            warn!("closing a client: epoll_ctl failed: {error}");
            self.close(slot);
        }
    }
}
