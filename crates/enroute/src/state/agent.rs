//! The agent as a service: one thread between its clients and the nodes.
//!
//! A round reads every client and node that has input, then writes to the nodes, then to the
//! clients: requests of many clients share a write to a node, and their answers a read.

use std::{
    cell::Cell,
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use acl::Acl;
use endpoint::{Report, Told};
use platform::{
    memory::{Budget, CLIENTS_BYTES, Clients, Stored, heap, process_bytes},
    tls, wall_clock,
};
use reactor::{Acceptor, BusyPolling, Drain, Events, Reactor, Seldom};
use state::agent::{Agent, Reporter, limits};
use tracing::{info, warn};

use super::{
    cluster::Access,
    links::Links,
    seat::{Seat, Shaking},
};
use crate::users;

mod clients;
mod observed;

use observed::Counted;

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The cluster.
    pub cluster: Access,
    /// Users file: which clients may do what. Without it every client may do everything.
    pub users: Option<PathBuf>,
    /// Encryption of connections of clients.
    pub tls: Option<Arc<tls::Server>>,
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
    counted: Arc<Counted>,
    /// Clients whose handshakes are not complete.
    shaking: usize,
    /// Bytes that TLS keeps for all clients.
    tls_bytes: usize,
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
    /// The sockets could not be set up, or the users not be read.
    pub fn new(listener: TcpListener, setup: Setup) -> anyhow::Result<Self> {
        heap::share(1);
        let address = listener.local_addr()?;
        let reactor = Reactor::new()?;
        let acceptor = Acceptor::new(listener, &reactor, LISTENER)?;
        let Access { seeds, login } = &setup.cluster;
        let mut agent = Agent::new(seeds, login.clone(), limits(), setup.seed, Duration::ZERO);
        agent.grant(setup.memory);
        let counted = Arc::new(Counted::new(&agent));
        if let Some(file) = &setup.users {
            users::load(agent.users(), file)?;
        }
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
            counted,
            shaking: 0,
            tls_bytes: 0,
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

    /// Returns what reports the counters of this agent at any time.
    pub fn reports(&self) -> impl Fn() -> Report + Send + Sync + 'static {
        let counted = Arc::clone(&self.counted);
        move || counted.report()
    }

    /// Users of its clients.
    #[must_use]
    pub fn users(&self) -> &Arc<Acl> {
        self.agent.users()
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
            self.end_late_handshakes(now);
            self.links.connect(&mut self.agent, &self.reactor, now);
            let wrote = self.links.write(&mut self.agent, now);
            // With many clients the next event comes soon, so polling would waste processor time.
            self.asked = wrote && self.events.iter().count() == 1;
            self.write();
            for client in self.agent.take_dropped() {
                self.close(client);
            }
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
        self.counted.clients.store(self.clients, Relaxed);
        let wanted = self.setup.memory as u64;
        let held = self.agent.copied_bytes() as u64;
        let copies = Copies { wanted, held, granted: Cell::new(wanted) };
        let sessions = self.setup.tls.as_ref().map_or(0, |_| self.clients * tls::SESSION_BYTES);
        self.budget.keep(&copies, &self.kept, process_bytes(wanted) + sessions as u64);
        self.agent.grant(copies.granted.get() as usize);
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
                        seat.notice(client, possible, &mut self.called);
                    }
                }
            }
        }
        if !ending {
            self.accept();
        }
        let mut called = std::mem::take(&mut self.called);
        let mut shaking = Shaking::default();
        for client in called.drain(..) {
            self.read_client(client, &mut shaking);
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

    /// Writes waiting output.
    fn write(&mut self) {
        let mut spoken = std::mem::take(&mut self.spoken);
        self.agent.spoken_to(&mut spoken);
        for client in spoken.drain(..) {
            self.write_client(client);
        }
        self.spoken = spoken;
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
