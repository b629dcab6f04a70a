//! The edge: TLS for several domains with their private keys on a key server, and a cache of their
//! content.
//!
//! dReDBox D6.3 §3.1 and §4: an edge near the user ends TLS on behalf of the content provider,
//! answers from its cache where allowed, and fetches the rest. The key stays with the key server; a
//! full handshake asks it once, a resumed one not at all.
//!
//! One tokio runtime with a worker for each core: a handshake waits for the key server and a
//! request for the origin, so connections are tasks. It implements no protocol: TLS is in crate
//! `edge_tls`, the rules of HTTP caches in crate `content`, SKI in `wire::ski`.
//!
//! **Read first:** `answer.rs`, one request from end to end; then `flights.rs`, where the origin is
//! asked once for many, and `fetch.rs`, what becomes of its answer.

use std::{
    collections::HashMap,
    hash::RandomState,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ::content::Marks;
use endpoint::Told;
use hyper::{Request, Response};
use parking_lot::RwLock;
use platform::{
    certificate::{Life, Watch},
    memory::{self, Budget, transit::Room},
    wall_clock::now,
};
use tokio::{runtime, sync::watch};

mod answer;
mod body;
mod content;
mod database;
mod fetch;
mod flights;
mod keys;
mod listener;
mod observed;
mod origin;
mod room;
mod setup;
mod stats;
mod taking;
mod unread;

pub use content::Content;
pub use database::Database;
pub use keys::KeyServer;
pub use origin::Origin;
pub use stats::{SharedLatencies, Stats};

use body::{Body, FromOrigin};
use origin::Failure;
use stats::time;

/// Limits for one client, one origin and the whole edge.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Clients at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// Handshakes at once; further ones wait, within their timeout.
    pub handshakes_max: usize,
    /// Longest request line and headers.
    pub header_bytes_max: usize,
    /// Longest body of a request.
    pub request_bytes_max: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// Requests that one origin is answering at once; further ones wait, within the origin timeout.
    pub origin_connections_max: usize,
    /// Time from accepting a connection to the end of its handshake.
    pub handshake_timeout: Duration,
    /// Longest time for the headers of a request, and between requests.
    pub idle_timeout: Duration,
    /// Timeout for connecting to an origin.
    pub connect_timeout: Duration,
    /// Time from the request to an origin to the headers of its answer, or to the end of an answer
    /// that is stored.
    pub origin_timeout: Duration,
    /// Timeout of busy connections after a shutdown is requested.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            handshakes_max: 1_024,
            header_bytes_max: 32 << 10,
            request_bytes_max: 16 << 20,
            streams_max: 128,
            origin_connections_max: 1_024,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            origin_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// One domain and its origin.
pub struct Site {
    /// Domain name, `shop.example`, or `*.example` for all names one label below.
    pub domain: String,
    /// The origin, which is asked for responses that are not stored.
    pub origin: Origin,
    /// Longest body that is stored.
    pub body_bytes_max: usize,
}

/// Everything an edge is made of.
pub struct Setup {
    /// Socket where clients connect.
    pub socket: TcpListener,
    /// Threads.
    pub workers: usize,
    /// See [`Limits`].
    pub limits: Limits,
    /// Storage of content.
    pub content: Content,
    /// Settings that may change while it serves.
    pub sites: Sites,
    /// Latency of key servers.
    pub key_latency: Arc<SharedLatencies>,
}

/// The domains, their certificates and keys: read at the start and again while the edge serves.
pub struct Sites {
    /// The sites, with their origins.
    pub served: Vec<Site>,
    /// The TLS side of each.
    pub tls: Vec<edge_tls::Site>,
    /// Expiry of certificates, of the sites and of the edge.
    pub lives: Vec<Life>,
}

/// Sites by domain.
type ByDomain = HashMap<String, Arc<Site>>;

fn by_domain(sites: Vec<Site>) -> ByDomain {
    sites.into_iter().map(|site| (site.domain.clone(), Arc::new(site))).collect()
}

/// State shared by all connections.
pub struct Shared {
    /// See [`Limits`].
    pub limits: Limits,
    /// Counted since the start.
    pub stats: Stats,
    /// From asking a key server until its answer or a failure.
    pub key_latency: Arc<SharedLatencies>,
    /// Storage of content.
    pub content: Content,
    certificates: Watch,
    sites: RwLock<ByDomain>,
    acceptor: edge_tls::Acceptor,
    flights: flights::Flights,
    marks: Marks,
    room: Arc<Room>,
    /// Port of the listener; a client names this port or none.
    port: u16,
    connections: AtomicUsize,
    told: Told,
    /// True after a shutdown is requested.
    ending: watch::Sender<bool>,
}

impl Shared {
    /// Clients being served.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Replaces the sites: new connections with clients, origins and key servers use these from now
    /// on; open connections and session tickets stay valid.
    ///
    /// # Errors
    /// TLS cannot be set up with them; then nothing changes.
    pub fn replace(&self, sites: Sites) -> anyhow::Result<()> {
        // Held during the change, so that a handshake for a new site finds it.
        let mut served = self.sites.write();
        self.acceptor.replace(&sites.tls)?;
        *served = by_domain(sites.served);
        self.certificates.replace(sites.lives);
        Ok(())
    }

    fn site(&self, domain: &str) -> Option<Arc<Site>> {
        self.sites.read().get(domain).cloned()
    }

    /// Whether `host` belongs to `site`, and not to a site with a more specific name.
    fn serves(&self, site: &Site, host: &str) -> bool {
        let label = site.domain.strip_prefix('*').and_then(|parent| host.strip_suffix(parent));
        let below = label.is_some_and(|label| !label.is_empty() && !label.contains('.'));
        host == site.domain || below && !self.sites.read().contains_key(host)
    }

    /// Asks an origin.
    async fn ask(
        &self,
        origin: &Origin,
        request: Request<Body>,
    ) -> Result<Response<FromOrigin>, Failure> {
        let began = Instant::now();
        let answer = origin.ask(request, &self.room).await;
        time(&self.stats.origin_latency, began);
        answer
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }
}

/// A serving edge.
pub struct Edge {
    runtime: runtime::Runtime,
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Edge {
    /// Starts to serve.
    ///
    /// # Errors
    /// A certificate or key is wrong, or threads and sockets cannot be had.
    pub fn start(setup: Setup) -> anyhow::Result<Self> {
        let Setup { socket, workers, limits, content, sites, key_latency } = setup;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        memory::heap::share(i32::try_from(workers).unwrap_or(HEAPS_MAX).clamp(2, HEAPS_MAX));
        let room = Room::new(room::share(content.memory().bytes_max()));
        let shared = Arc::new(Shared {
            limits,
            content,
            certificates: Watch::start(sites.lives)?,
            stats: Stats::default(),
            key_latency,
            acceptor: edge_tls::Acceptor::new(&sites.tls)?,
            sites: RwLock::new(by_domain(sites.served)),
            flights: flights::Flights::default(),
            marks: Marks::new(RandomState::new()),
            room,
            port: address.port(),
            connections: AtomicUsize::new(0),
            told: Told::default(),
            ending: watch::Sender::new(false),
        });
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name("edge")
            .enable_all()
            .build()?;
        let socket = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        runtime.spawn(listener::serve(socket, Arc::clone(&shared)));
        runtime.spawn(keep_within_memory(Arc::clone(&shared)));
        Ok(Self { runtime, shared, address })
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// State shared by its connections.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Lets the requests under way end, up to the drain timeout.
    pub fn stop(self) {
        self.shared.ending.send_replace(true);
        let idle = async {
            while self.shared.connections() > 0 {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        let limit = self.shared.limits.drain_timeout;
        let drained = self.runtime.block_on(async { tokio::time::timeout(limit, idle).await });
        if drained.is_err() {
            tracing::warn!(
                "closing {} connections that are still busy after drain_timeout",
                self.shared.connections()
            );
        }
        self.runtime.shutdown_background();
    }
}

/// Heaps of the C library that the threads share: each keeps a little that is free.
const HEAPS_MAX: i32 = 8;
/// Time between two measurements of what the process takes.
const MEASURE_PAUSE: Duration = Duration::from_millis(50);

/// Reduces content memory when the rest of the process exceeds its base.
async fn keep_within_memory(shared: Arc<Shared>) {
    let (content, clients) = (&shared.content, shared.room.clients());
    let mut budget = Budget::new(clients);
    loop {
        let process = room::process_bytes(content.memory().bytes_max(), &shared.limits);
        budget.keep(content, clients, process);
        while content.memory().advance(now()) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(MEASURE_PAUSE).await;
    }
}

/// Interval of checks whether all connections have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(10);
