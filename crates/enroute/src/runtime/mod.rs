//! The cache as a service: sockets, threads and the clock around `cache`.
//!
//! One thread accepts, one connects to origins, `workers` threads serve: each with its own epoll
//! (`docs/decisions/0006-event-loops.md`), because a connection never needs another core. Storage
//! is shared by all of them ([`Shards`]). One more thread does the periodic maintenance of storage.
//!
//! **Read first:** `worker.rs`, then `connection.rs`, then [`Shards`].

use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use cache::feed::{Feed, redis::Clusters};
use cache::{stats::Stats, storage};
use platform::{
    memory::{self, Budget, CLIENTS_BYTES, Clients, Stored},
    place, reached,
};
use reactor::{Acceptor, Reactor};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

mod behind;
mod connection;
mod connector;
mod explain;
mod feed;
mod hello;
mod inbox;
mod lender;
mod listener;
mod monitor;
mod origin;
mod streams;
mod tls;
mod watch;
mod worker;

pub use cache::storage::shards::{Handle, Shards, StorageLimits};
pub use lender::Lender;
pub use listener::{Listener, Protocol};
pub use monitor::Monitored;
pub use origin::{Origin, Servers};

use inbox::Post;
use streams::Streams;

/// Limits of the whole process.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Timeout of busy connections after a shutdown is requested.
    pub drain_timeout: Duration,
}

/// State shared by all threads.
pub struct Shared {
    /// All of storage.
    pub shards: Arc<Shards>,
    /// Start of the clock: `now` counts from here.
    pub start: Instant,
    /// The listeners.
    pub listeners: Vec<Arc<Listener>>,
    /// One set of counters for each worker, one for relayed connections, and one for the feeds.
    pub stats: Vec<Arc<Stats>>,
    /// Limits of the whole process.
    pub limits: Limits,
    clients: Clients,
    post: Post,
    /// Number of times that an origin has left its place.
    moves: AtomicU64,
    /// Another process accepts the clients of the listeners.
    succeeded: AtomicBool,
    draining: AtomicBool,
    /// Ends the thread of the feeds.
    drain: Notify,
}

impl Shared {
    /// Whether a shutdown is requested.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether clients are still accepted.
    fn accepts(&self) -> bool {
        !self.is_draining() && !self.succeeded.load(Relaxed)
    }

    /// An origin has left its place: every session looks whether its connection leads there.
    fn origin_moved(&self) {
        self.moves.fetch_add(1, Relaxed);
        self.post.wake_all();
    }

    /// Counters of the thread that relays connections; only that thread counts in them.
    fn relay_stats(&self) -> Option<&Arc<Stats>> {
        self.stats.get(self.post.len())
    }

    /// What caching would have answered, if reads are only observed.
    pub fn forecast(&self) -> Option<storage::observe::Forecast> {
        let reads = || self.stats.iter().map(|stats| stats.misses()).sum();
        self.shards.observer().map(|observer| observer.forecast(reads()))
    }

    /// Connections being served.
    pub fn connections(&self) -> usize {
        self.listeners.iter().map(|listener| listener.connections()).sum()
    }
}

/// Maximum number of heaps of the C library for all threads: each heap keeps some free memory.
const HEAPS_MAX: i32 = 8;

/// A running cache; [`Runtime::stop`] ends it.
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    acceptor: Option<JoinHandle<()>>,
}

/// Settings for [`Runtime::start`].
pub struct Setup {
    /// Number of worker threads.
    pub workers: usize,
    /// Storage behind all listeners.
    pub storage: storage::Config,
    /// Limits of the whole process.
    pub limits: Limits,
    /// All listening sockets, and their settings.
    pub listeners: Vec<(TcpListener, Listener)>,
    /// Nothing is stored until [`Shards::open`]: another process still serves the same origins.
    pub is_successor: bool,
}

impl Runtime {
    /// Starts every thread.
    ///
    /// # Errors
    /// A socket or a thread could not be set up.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let (sockets, listeners): (Vec<_>, Vec<_>) = setup
            .listeners
            .into_iter()
            .map(|(socket, listener)| (socket, Arc::new(listener)))
            .unzip();
        let accepting = Reactor::new()?;
        let acceptors = (0..)
            .zip(sockets)
            .map(|(token, socket)| Acceptor::new(socket, &accepting, token))
            .collect::<io::Result<Vec<_>>>()?;
        memory::heap::share(i32::try_from(setup.workers).unwrap_or(HEAPS_MAX).clamp(2, HEAPS_MAX));
        let seed = RandomState::new().hash_one(0u8);
        let shared = Arc::new(Shared {
            shards: Arc::new(Shards::new(&setup.storage, seed)),
            start: Instant::now(),
            listeners: listeners.clone(),
            stats: (0..setup.workers + 2).map(|_| Arc::default()).collect(),
            limits: setup.limits,
            clients: Clients::new(CLIENTS_BYTES),
            post: Post::new(setup.workers)?,
            moves: AtomicU64::new(0),
            succeeded: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drain: Notify::new(),
        });
        if setup.is_successor {
            shared.shards.close();
        }
        let mut runtime = Self { shared: Arc::clone(&shared), threads: Vec::new(), acceptor: None };
        // The feeds close their origins before the first client is accepted.
        runtime.start_origins()?;
        let (wish, wishes) = mpsc::unbounded_channel();
        for (index, stats) in shared.stats[..setup.workers].iter().enumerate() {
            let (shared, stats, wish) = (Arc::clone(&shared), Arc::clone(stats), wish.clone());
            runtime.spawn("worker", move || worker::run(shared, stats, wish, index))?;
        }
        let (hellos, said) = mpsc::unbounded_channel();
        let connector = Arc::clone(&shared);
        let (streams, clients) = Streams::new();
        runtime.spawn("connector", move || connector::run(&connector, wishes, said, streams))?;
        if listeners.iter().any(|listener| listener.takes_http2()) {
            let shared = Arc::clone(&shared);
            runtime.spawn("http2", move || streams::run(&shared, clients))?;
        }
        if listeners.iter().any(|listener| listener.lender.is_some()) {
            let shared = Arc::clone(&shared);
            runtime.spawn("lender", move || lender::run(&shared))?;
        }
        let acceptors = acceptors.into_iter().zip(listeners).collect();
        let acceptor = Arc::clone(&shared);
        let accept = move || {
            if let Err(error) = listener::accept(&acceptor, &accepting, acceptors, &hellos) {
                tracing::error!(
                    "no listener accepts connections any more; restart the cache: {error}"
                );
            }
        };
        runtime.acceptor = Some(thread::Builder::new().name("acceptor".into()).spawn(accept)?);
        let keeper = Arc::clone(&shared);
        runtime.spawn("housekeeping", move || keep(&keeper))?;
        Ok(runtime)
    }

    /// State shared by all threads.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Where clients connect, in the order of [`Setup::listeners`].
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.listeners.iter().map(|listener| listener.address).collect()
    }

    /// Leaves the clients that connect from now on to another process, and goes on with the others.
    pub fn stop_accepting(&mut self) {
        self.shared.succeeded.store(true, Relaxed);
        self.acceptor.take().into_iter().for_each(join);
    }

    /// Stops accepting, waits for outstanding replies, and ends.
    pub fn stop(self) {
        self.shared.draining.store(true, Relaxed);
        self.shared.drain.notify_one();
        self.shared.post.wake_all();
        self.acceptor.into_iter().chain(self.threads).for_each(join);
    }

    fn start_origins(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let Some(stats) = shared.stats.last().map(Arc::clone) else { return Ok(()) };
        let mut storage = Handle::new(Arc::clone(&shared.shards), Arc::clone(&stats));
        let sources = shared.listeners.iter().filter_map(|listener| listener.feed_source());
        let mut clusters = Clusters::default();
        let feeds: Vec<_> = sources
            .map(|source| {
                let reporter = source.reporter.clone();
                let feed = Feed::new(reporter, source.config.clone(), &mut clusters, &mut storage);
                (source, feed)
            })
            .collect();
        let sources = shared.listeners.iter().flat_map(|listener| listener.watch_sources());
        let watches = sources.map(|source| {
            let questions = source.origin.watched();
            (source, questions)
        });
        let watches = watches.collect();
        let monitors = shared.listeners.iter().filter_map(|listener| listener.monitor_source());
        let monitors = monitors.collect();
        self.spawn("origins", move || feed::run(&shared, &stats, watches, feeds, monitors))
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(body)?);
        Ok(())
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the cache panicked; please report this as a bug");
    }
}

/// The items of the cache, for the memory budget of the process.
struct Items<'a>(&'a Shards);

impl Stored for Items<'_> {
    fn wanted(&self) -> u64 {
        self.0.limits().bytes_max as u64
    }

    fn held(&self) -> u64 {
        self.0.memory().accounted_bytes as u64
    }

    fn grant(&self, bytes: u64) {
        self.0.grant(bytes);
    }
}

/// Maximum interval of storage maintenance.
const TICK: Duration = Duration::from_millis(50);

/// Periodic maintenance of storage.
fn keep(shared: &Shared) {
    let mut budget = Budget::new(&shared.clients);
    let mut measured = None;
    while !shared.is_draining() {
        if measured.is_none_or(|at: std::time::Instant| at.elapsed() >= TICK) {
            measured = Some(std::time::Instant::now());
            let process = memory::process_bytes(shared.shards.limits().bytes_max as u64);
            budget.keep(&Items(&shared.shards), &shared.clients, process + shared.tls_bytes());
        }
        // While storage shrinks there is more to do at once; the lock is released between the
        // steps, so that requests can use it.
        if shared.shards.advance(shared.start.elapsed()) {
            thread::yield_now();
        } else {
            warn(shared);
            thread::sleep(TICK);
        }
    }
}

/// Warns of nodes to which clients were redirected and that are the origin of no listener, and of
/// users without the right to run PTTL.
fn warn(shared: &Shared) {
    for listener in &shared.listeners {
        let Protocol::Resp(settings) = &listener.protocol else { continue };
        for node in settings.addresses.take_strangers() {
            tracing::warn!(
                listen = %listener.address,
                node,
                "clients bypass the cache: no listener has this cluster node as its origin; add a \
                 [[listener]] for it"
            );
        }
        for user in settings.access.take_blind() {
            tracing::warn!(
                listen = %listener.address,
                origin = settings.origin,
                user,
                "this user may not run PTTL at the origin, so it is not known when its keys expire, \
                 and what it reads is stored only with unknown_expiry = \"ttl\"; grant it +pttl"
            );
        }
    }
}
