//! The agent as a service: one thread between its clients and the nodes.
//!
//! A round reads every client and node that has input, then writes to the nodes, then to the
//! clients: requests of many clients share a write to a node, and their answers a read.

use std::{
    cell::Cell,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use endpoint::{Told, seldom};
use platform::{
    memory::{Budget, CLIENTS_BYTES, COUNTED_BYTES, Clients, Stored, heap, process_bytes},
    wall_clock,
};
use reactor::{Acceptor, BusyPolling, Drain, Events, Possible, Reactor, Seldom, Socket};
use state::agent::{Agent, Reporter, limits};
use tracing::{info, warn};
use wire::resp::response;

use super::{cluster::Access, links::Links};

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The cluster.
    pub cluster: Access,
    /// Clients served at once; further ones are turned away.
    pub clients_max: usize,
    /// Bytes that copies may take.
    pub memory: usize,
    /// Name of this agent among all agents.
    pub name: String,
    /// Interval between reports to the placer.
    pub report_period: Duration,
    /// Seed of the sampling.
    pub seed: u64,
}

/// Events taken in one round.
const EVENTS_MAX: usize = 256;
/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// The longest wait before looking whether the end was asked for.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Interval of memory measurements.
const MEASURE_PERIOD: Duration = Duration::from_millis(50);
/// Maximum time for which clients are still served after shutdown was requested.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Minimum time between two log lines about nodes that name no slot.
const SLOTLESS_PAUSE: Duration = Duration::from_secs(10);

const LISTENER: u64 = u64::MAX;

/// A client's connection, by its place in [`Agent`].
struct Seat {
    socket: Socket,
    peer: SocketAddr,
    /// The client is served in this round.
    called: bool,
}

/// The loop.
pub struct Service {
    setup: Setup,
    acceptor: Acceptor,
    address: SocketAddr,
    reactor: Reactor,
    events: Events,
    polling: BusyPolling,
    /// A request was just sent to a node, and there is no other work.
    asked: bool,
    agent: Agent,
    seats: Vec<Option<Seat>>,
    clients: usize,
    budget: Budget,
    measure_due: Duration,
    /// Waiting data of all clients.
    kept: Clients,
    /// The buffer limit was reached, and some clients that may be readable now were not read.
    held_back: bool,
    links: Links,
    reporter: Reporter,
    start: Instant,
    buffer: Box<[u8]>,
    called: Vec<usize>,
    called_links: Vec<usize>,
    spoken: Vec<usize>,
    told: Told,
    slotless: Seldom,
}

impl Service {
    /// An agent for the clients of `listener`.
    ///
    /// # Errors
    /// The sockets could not be set up.
    pub fn new(listener: TcpListener, setup: Setup) -> io::Result<Self> {
        heap::share(1);
        let address = listener.local_addr()?;
        let reactor = Reactor::new()?;
        let acceptor = Acceptor::new(listener, &reactor, LISTENER)?;
        let Access { seeds, login } = &setup.cluster;
        let mut agent = Agent::new(seeds, login.clone(), limits(), setup.seed, Duration::ZERO);
        agent.grant(setup.memory);
        let kept = Clients::new(CLIENTS_BYTES);
        let since = wall_clock::now();
        let (name, period, sequence) =
            (&*setup.name, setup.report_period, since.as_millis() as u64);
        let reporter = Reporter::new(&mut agent, address, name, period, sequence);
        Ok(Self {
            setup,
            acceptor,
            address,
            reactor,
            events: Events::with_capacity(EVENTS_MAX),
            polling: BusyPolling::default(),
            asked: false,
            agent,
            seats: Vec::new(),
            clients: 0,
            budget: Budget::new(&kept),
            measure_due: Duration::ZERO,
            kept,
            held_back: false,
            links: Links::default(),
            reporter,
            start: Instant::now(),
            buffer: vec![0; READ_BYTES].into(),
            called: Vec::new(),
            called_links: Vec::new(),
            spoken: Vec::new(),
            told: Told::default(),
            slotless: Seldom::new(SLOTLESS_PAUSE),
        })
    }

    /// Address where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `end` is set and all outstanding replies are written.
    ///
    /// # Errors
    /// The system call that waits for sockets fails.
    pub fn run(mut self, end: &Arc<AtomicBool>) -> io::Result<()> {
        let mut drain = Drain::new(DRAIN_LIMIT);
        loop {
            let ending = end.load(Relaxed);
            if ending {
                drain.begin();
                self.close_idle();
                if self.clients == 0 || drain.is_over() {
                    info!(clients = self.clients, "agent stopped");
                    return Ok(());
                }
            }
            self.wait(ending)?;
            self.read(ending);
            let now = self.now();
            if self.agent.next_timeout() <= now {
                self.agent.handle_timeout(now);
            }
            self.measure(now);
            self.tell_slotless();
            if let Some(error) = self.reporter.advance(&mut self.agent, now) {
                warn!(
                    "a node rejected the report for the placer; check the rights of --user: {error}"
                );
            }
            self.links.give_up_late(&mut self.agent, now);
            self.links.connect(&mut self.agent, &self.reactor, now);
            let wrote = self.links.write(&mut self.agent, now);
            // With many clients the next event comes soon, so polling would waste processor time.
            self.asked = wrote && self.events.iter().count() == 1;
            self.write();
            self.make_room();
        }
    }

    /// Logs that a node named no slot.
    fn tell_slotless(&mut self) {
        let Some((node, why)) = self.agent.take_slotless() else { return };
        if let Some(attempts) = self.slotless.note(Instant::now()) {
            warn!(%node, attempts, "cannot read the slots of the cluster, retrying; check --cluster: {why}");
        }
    }

    /// Shrinks copies if the rest of the process needs the memory.
    fn measure(&mut self, now: Duration) {
        if now < self.measure_due {
            return;
        }
        self.measure_due = now + MEASURE_PERIOD;
        let wanted = self.setup.memory as u64;
        let held = self.agent.copied_bytes() as u64;
        let copies = Copies { wanted, held, granted: Cell::new(wanted) };
        self.budget.keep(&copies, &self.kept, process_bytes(wanted));
        self.agent.grant(copies.granted.get() as usize);
    }

    /// Sets the buffer limit of clients, and closes those that use the most while it is zero.
    fn make_room(&mut self) {
        loop {
            self.kept.count(self.kept.bytes(), self.agent.held_bytes());
            self.agent.set_room(self.kept.room());
            if self.kept.room() > 0 {
                break;
            }
            self.held_back = true;
            let held = |(client, seat): (usize, &Option<Seat>)| {
                seat.as_ref().map(|seat| (self.agent.held_by(client), client, seat.peer))
            };
            let most = self.seats.iter().enumerate().filter_map(held).max();
            let greedy = most.filter(|(bytes, ..)| *bytes >= COUNTED_BYTES);
            // Waits for requests on their way to nodes, and for their answers.
            let Some((bytes, client, peer)) = greedy else { return };
            self.kept.tell(peer, bytes);
            self.close(client);
        }
        if std::mem::take(&mut self.held_back) {
            self.read_again();
        }
    }

    /// Resumes clients whose requests were not read or executed.
    fn read_again(&mut self) {
        let now = self.now();
        for client in 0..self.seats.len() {
            let Some(Some(seat)) = self.seats.get_mut(client) else { continue };
            if let Err(error) = self.agent.heard(client, now) {
                self.told.tell(self.address, seat.peer, &error);
            }
            call(seat, client, &mut self.called);
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&mut self, ending: bool) -> io::Result<()> {
        let busy =
            !self.called.is_empty() || !self.called_links.is_empty() || self.links.is_called();
        let due = self.agent.next_timeout().min(self.reporter.due());
        let due = due.saturating_sub(self.now()).min(LOOK_PAUSE);
        let accepts = self.acceptor.patience().filter(|_| !ending);
        let due = accepts.map_or(due, |patience| patience.min(due));
        if self.asked && !busy {
            return self.reactor.wait_polling(&mut self.events, due, &mut self.polling);
        }
        self.reactor.wait(&mut self.events, Some(if busy { Duration::ZERO } else { due }))
    }

    /// Reads from clients and nodes.
    fn read(&mut self, ending: bool) {
        for (token, possible) in self.events.iter() {
            match (token, (token / 2) as usize) {
                (LISTENER, _) => self.acceptor.notice(),
                (_, link) if token % 2 == 1 => {
                    if self.links.notice(link, possible, &mut self.agent, self.start.elapsed()) {
                        self.called_links.push(link);
                    }
                }
                (_, client) => {
                    if let Some(Some(seat)) = self.seats.get_mut(client) {
                        notice(seat, client, possible, &mut self.called);
                    }
                }
            }
        }
        if !ending {
            self.accept();
        }
        let mut called = std::mem::take(&mut self.called);
        for client in called.drain(..) {
            self.read_client(client);
        }
        // Connections scheduled in the meantime are served in the next round; the allocation is
        // kept.
        called.append(&mut self.called);
        self.called = called;
        let mut links = std::mem::take(&mut self.called_links);
        for link in links.drain(..) {
            let now = self.start.elapsed();
            if self.links.read(link, &mut self.buffer, &mut self.agent, now) {
                self.called_links.push(link);
            }
            self.make_room();
        }
        links.append(&mut self.called_links);
        self.called_links = links;
    }

    fn read_client(&mut self, client: usize) {
        let Some(Some(seat)) = self.seats.get_mut(client) else { return };
        seat.called = false;
        // Always passed on, so that every writable client is written to.
        self.spoken.push(client);
        if !self.agent.listens_to(client) {
            return;
        }
        match seat.socket.read(&mut self.buffer) {
            Ok(None) => {}
            Ok(Some(0)) => self.close(client),
            Ok(Some(count)) => {
                let peer = seat.peer;
                if seat.socket.is_readable() {
                    call(seat, client, &mut self.called);
                }
                let bytes = self.buffer.get(..count).unwrap_or_default();
                if let Err(error) = self.agent.receive(client, bytes, self.start.elapsed()) {
                    self.told.tell(self.address, peer, &error);
                }
                self.make_room();
            }
            Err(error) => {
                tracing::debug!(peer = %seat.peer, "client connection failed: {error}");
                self.close(client);
            }
        }
    }

    /// Writes waiting output.
    fn write(&mut self) {
        let mut spoken = std::mem::take(&mut self.spoken);
        self.agent.spoken_to(&mut spoken);
        for client in spoken.drain(..) {
            self.write_client(client);
        }
        self.spoken = spoken;
    }

    fn write_client(&mut self, client: usize) {
        let now = self.now();
        let Some(Some(seat)) = self.seats.get_mut(client) else { return };
        let Some(output) = self.agent.output(client) else { return };
        if !output.is_empty() {
            match write(&mut seat.socket, output) {
                Ok(()) => {
                    if let Err(error) = self.agent.heard(client, now) {
                        self.told.tell(self.address, seat.peer, &error);
                    }
                }
                Err(error) => {
                    tracing::debug!(peer = %seat.peer, "client connection failed: {error}");
                    return self.close(client);
                }
            }
        }
        if self.agent.is_over(client) {
            self.close(client);
        } else if seat.socket.is_readable() && self.agent.listens_to(client) {
            call(seat, client, &mut self.called);
        }
    }

    fn accept(&mut self) {
        while let Some((stream, peer)) = self.acceptor.accept() {
            if self.clients >= self.setup.clients_max {
                seldom!(self.told, Full => warn, %peer, limit = self.setup.clients_max,
                    "connection rejected: --clients-max is reached");
                let _ = io::Write::write(&mut &stream, response::CLIENTS_MAX_REACHED);
            } else if let Err(error) = self.seat(stream, peer) {
                seldom!(self.told, Socket => warn, %peer,
                    "connection closed: cannot set up its socket: {error}");
            }
        }
    }

    fn seat(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let address = stream.local_addr()?;
        let client = self.agent.open(address);
        let socket = Socket::new(stream, &self.reactor, client as u64 * 2)
            .inspect_err(|_| self.agent.close(client))?;
        if self.seats.len() <= client {
            self.seats.resize_with(client + 1, || None);
        }
        self.seats[client] = Some(Seat { socket, peer, called: false });
        self.clients += 1;
        Ok(())
    }

    fn close(&mut self, client: usize) {
        if self.seats.get_mut(client).and_then(Option::take).is_some() {
            self.agent.close(client);
            self.clients -= 1;
        }
    }

    fn close_idle(&mut self) {
        for client in 0..self.seats.len() {
            if self.agent.is_idle(client) {
                self.close(client);
            }
        }
    }
}

/// Memory accounting of the copies.
struct Copies {
    wanted: u64,
    held: u64,
    granted: Cell<u64>,
}

impl Stored for Copies {
    fn wanted(&self) -> u64 {
        self.wanted
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn grant(&self, bytes: u64) {
        self.granted.set(bytes);
    }
}

fn notice(seat: &mut Seat, client: usize, possible: Possible, called: &mut Vec<usize>) {
    seat.socket.notice(possible);
    call(seat, client, called);
}

fn call(seat: &mut Seat, client: usize, called: &mut Vec<usize>) {
    if !std::mem::replace(&mut seat.called, true) {
        called.push(client);
    }
}

/// Writes as much as the socket accepts.
pub(super) fn write(socket: &mut Socket, output: &mut state::agent::Output) -> io::Result<()> {
    while !output.is_empty() {
        match socket.write(output.bytes())? {
            0 => break,
            count => output.advance(count),
        }
    }
    Ok(())
}
