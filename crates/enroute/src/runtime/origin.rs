//! The origin of a listener: where it is, and connecting to it.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cache::session::Lost;
use endpoint::losses::{Cause, Losses};
use platform::tls;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
};
use tracing::warn;
use wire::memcache;

use super::{
    inbox::Wanted,
    place::Place,
    reached::{Reached, Stream},
};

/// An origin.
#[derive(Debug)]
pub struct Origin {
    /// How the configuration names it.
    name: String,
    pub(super) place: Place,
    connect_timeout: Duration,
    /// Connections to it are encrypted.
    tls: Option<Arc<tls::Client>>,
    failures: Arc<AtomicU64>,
    lost: Arc<Losses>,
    /// Why it cannot be used although it is reachable.
    fault: watch::Sender<Option<String>>,
    /// Asks its watch to confirm a new connection.
    watch: OnceLock<mpsc::UnboundedSender<Wanted>>,
    /// The servers that share its keys, if it is several.
    servers: Option<Arc<Servers>>,
}

/// Several memcached servers that are one origin.
#[derive(Debug)]
pub struct Servers {
    /// Which of them has a key.
    pub(super) ring: Arc<memcache::Ring>,
    /// Limits of the codec.
    pub(super) limits: memcache::Limits,
    pub(super) list: Vec<Arc<Origin>>,
    numbers: AtomicU32,
}

impl Servers {
    /// The servers of `ring`, in its order.
    pub fn new(ring: memcache::Ring, limits: memcache::Limits, list: Vec<Origin>) -> Self {
        let list = list.into_iter().map(Arc::new).collect();
        Self { ring: Arc::new(ring), limits, list, numbers: AtomicU32::new(0) }
    }

    /// A number for a further connection, which no connection of the same session has.
    pub(super) fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Relaxed)
    }
}

impl Origin {
    /// The origin at `address` (`host:port`).
    pub fn new(address: String, connect_timeout: Duration) -> Self {
        Self { place: Place::new(Some(address.clone())), ..Self::sought(address, connect_timeout) }
    }

    /// The origin called `name`, whose address is found later.
    pub fn sought(name: String, connect_timeout: Duration) -> Self {
        Self {
            name,
            place: Place::new(None),
            connect_timeout,
            tls: None,
            failures: Arc::default(),
            lost: Arc::default(),
            fault: watch::Sender::default(),
            watch: OnceLock::new(),
            servers: None,
        }
    }

    /// The same, whose keys several servers share.
    #[must_use]
    pub fn with_servers(self, servers: Option<Servers>) -> Self {
        Self { servers: servers.map(Arc::new), ..self }
    }

    /// The servers that share its keys; `None` if it is one server.
    pub(super) fn servers(&self) -> Option<&Arc<Servers>> {
        self.servers.as_ref()
    }

    /// The same with encrypted connections.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<tls::Client>>) -> Self {
        Self { tls, ..self }
    }

    /// Encryption of its connections.
    pub fn tls(&self) -> Option<&Arc<tls::Client>> {
        self.tls.as_ref()
    }

    /// Attaches a watch, which receives the new connections of the sessions and confirms each.
    pub(super) fn watched(&self) -> mpsc::UnboundedReceiver<Wanted> {
        let (ask, questions) = mpsc::unbounded_channel();
        // Each listener has its own origin, and is started once.
        let _ = self.watch.set(ask);
        questions
    }

    /// Asks the watch to confirm a new connection; false if there is no watch. Each session asks
    /// once for each of its connections, which bounds the queue.
    pub(super) fn confirm(&self, wanted: Wanted) -> bool {
        self.watch.get().is_some_and(|watch| watch.send(wanted).is_ok())
    }

    /// Sets why it cannot be used; true if that has changed.
    pub(super) fn set_fault(&self, fault: Option<String>) -> bool {
        self.fault.send_if_modified(|present| {
            let changed = *present != fault;
            *present = fault;
            changed
        })
    }

    /// Why it cannot be used although it is reachable.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.borrow().clone()
    }

    /// The same with another address; failures are counted together.
    pub(super) fn at(&self, address: String) -> Self {
        Self {
            tls: self.tls.clone(),
            failures: Arc::clone(&self.failures),
            lost: Arc::clone(&self.lost),
            ..Self::new(address, self.connect_timeout)
        }
    }

    /// Connects, unless it is known to be unusable, or that becomes known first.
    pub(super) async fn connect(&self) -> io::Result<Reached> {
        let mut faults = self.fault.subscribe();
        tokio::select! {
            biased;
            Ok(fault) = faults.wait_for(Option::is_some) => {
                Err(io::Error::other(fault.clone().unwrap_or_default()))
            }
            reached = self.reach() => reached,
        }
    }

    /// Connects to where it is now.
    pub(super) async fn reach(&self) -> io::Result<Reached> {
        let (address, epoch) = self.place.find(self.connect_timeout).await?;
        Ok(Reached { stream: self.reach_at(&address).await?, epoch })
    }

    /// Connects to a server of it. The name is resolved each time, so that a database that has
    /// moved is found.
    pub(super) async fn reach_at(&self, address: &str) -> io::Result<Stream> {
        Stream::connect(address, self.tls.as_deref(), self.connect_timeout).await
    }

    /// Connects without encryption, even if TLS is configured: for queries that contain no secret.
    pub(super) async fn reach_without_tls(&self) -> io::Result<TcpStream> {
        let (address, _) = self.place.find(self.connect_timeout).await?;
        let connecting = TcpStream::connect(&address);
        let stream = tokio::time::timeout(self.connect_timeout, connecting).await??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Records that it could not be reached. Logged at the first failure, then at growing
    /// intervals.
    pub(super) fn report(&self, error: &io::Error) {
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        if failures.is_power_of_two() {
            warn!(origin = self.name, failures, "cannot reach the origin: {error}");
        }
    }

    /// Records that the reply to a write of the client at `peer` was lost.
    pub(super) fn report_lost(&self, peer: SocketAddr, lost: Lost) {
        let lost = (lost.command, lost.scope.kind());
        self.lost.note(&self.name, peer, lost, Instant::now());
    }

    /// The reasons for which scopes of it are or were in quarantine.
    pub fn quarantine_causes(&self) -> Vec<Cause> {
        self.lost.causes()
    }

    /// Error text for clients when it cannot be used because of `error`.
    pub(super) fn excuse(&self, error: &io::Error) -> String {
        match &*self.fault.borrow() {
            Some(_) => error.to_string(),
            None => "the origin cannot be reached".to_owned(),
        }
    }

    /// Number of failed attempts to reach it.
    pub fn failures(&self) -> u64 {
        let of_servers = self.servers.iter().flat_map(|servers| &servers.list);
        let of_servers: u64 = of_servers.map(|server| server.failures()).sum();
        self.failures.load(Relaxed) + of_servers
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}
