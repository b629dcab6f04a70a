//! The origin of a listener: where it is, and connecting to it.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cache::{lease::Ticket, session::Lost};
use endpoint::losses::{Cause, Losses};
use platform::tls;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
};
use tracing::warn;

use super::{
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
    watch: OnceLock<mpsc::UnboundedSender<Ticket>>,
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
        }
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

    /// Attaches a watch, which receives the tickets of the sessions and confirms each new
    /// connection.
    pub(super) fn watched(&self) -> mpsc::UnboundedReceiver<Ticket> {
        let (ask, questions) = mpsc::unbounded_channel();
        // Each listener has its own origin, and is started once.
        let _ = self.watch.set(ask);
        questions
    }

    /// Asks the watch to confirm a new connection; false if there is no watch. Each session asks
    /// once for each of its connections, which bounds the queue.
    pub(super) fn confirm(&self, ticket: Ticket) -> bool {
        self.watch.get().is_some_and(|watch| watch.send(ticket).is_ok())
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
        self.failures.load(Relaxed)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}
