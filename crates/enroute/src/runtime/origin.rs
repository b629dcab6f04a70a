//! The origin of a listener: its address, and connecting to it.

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
use parking_lot::Mutex;
use tokio::{net::TcpStream, sync::mpsc};
use tracing::warn;

use super::{
    losses::{Cause, Losses},
    reached::Reached,
};
use crate::tls;

/// An origin's address.
#[derive(Debug)]
pub struct Origin {
    address: String,
    connect_timeout: Duration,
    /// Connections to it are encrypted.
    tls: Option<Arc<tls::Client>>,
    failures: Arc<AtomicU64>,
    lost: Arc<Losses>,
    /// Why it cannot be used although it can be reached.
    fault: Mutex<Option<String>>,
    /// Asks its watch to confirm a new connection.
    watch: OnceLock<mpsc::UnboundedSender<Ticket>>,
}

impl Origin {
    /// The origin at `address` (`host:port`).
    pub fn new(address: String, connect_timeout: Duration) -> Self {
        Self {
            address,
            connect_timeout,
            tls: None,
            failures: Arc::default(),
            lost: Arc::default(),
            fault: Mutex::default(),
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

    /// Attaches a watch that confirms each new connection; it receives the tickets of the sessions.
    pub(super) fn watched(&self) -> mpsc::UnboundedReceiver<Ticket> {
        let (ask, questions) = mpsc::unbounded_channel();
        // Each listener has an origin of its own, and is started once.
        let _ = self.watch.set(ask);
        questions
    }

    /// Asks the watch about a connection that was made just now; false if there is none. Each session
    /// asks once for each of its connections, which bounds the queue.
    pub(super) fn confirm(&self, ticket: Ticket) -> bool {
        self.watch.get().is_some_and(|watch| watch.send(ticket).is_ok())
    }

    /// Sets why it cannot be used; true if that has changed.
    pub(super) fn set_fault(&self, fault: Option<String>) -> bool {
        let mut present = self.fault.lock();
        let changed = *present != fault;
        *present = fault;
        changed
    }

    /// The same at another address; failures are counted together.
    pub(super) fn at(&self, address: String) -> Self {
        Self {
            address,
            connect_timeout: self.connect_timeout,
            tls: self.tls.clone(),
            failures: Arc::clone(&self.failures),
            lost: Arc::clone(&self.lost),
            fault: Mutex::default(),
            watch: OnceLock::new(),
        }
    }

    /// Connects, unless it is known to be unusable.
    pub(super) async fn connect(&self) -> io::Result<Reached> {
        let fault = self.fault.lock().clone();
        match fault {
            Some(fault) => Err(io::Error::other(fault)),
            None => self.reach().await,
        }
    }

    /// Connects. The name is looked up each time: a database that moved is found again.
    pub(super) async fn reach(&self) -> io::Result<Reached> {
        let (address, limit) = (&self.address, self.connect_timeout);
        let stream = tokio::time::timeout(limit, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Reached::Plain(stream),
            Some(tls) => Reached::Encrypted(Box::new(tls.secure(stream, limit).await?)),
        })
    }

    /// Notes that it could not be reached; logged at the first failure and then ever more rarely.
    pub(super) fn report(&self, error: &io::Error) {
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        if failures.is_power_of_two() {
            warn!(origin = self.address, failures, "cannot reach the origin: {error}");
        }
    }

    /// Notes that the answer to a write of the client at `peer` was lost.
    pub(super) fn report_lost(&self, peer: SocketAddr, lost: Lost) {
        self.lost.note(&self.address, peer, lost, Instant::now());
    }

    /// Why something of it is, or was, in quarantine.
    pub fn quarantine_causes(&self) -> Vec<Cause> {
        self.lost.causes()
    }

    /// Error text for clients when it cannot be used because of `error`.
    pub(super) fn excuse(&self, error: &io::Error) -> String {
        match &*self.fault.lock() {
            Some(_) => error.to_string(),
            None => "the origin cannot be reached".to_owned(),
        }
    }

    /// How often it could not be reached.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.address)
    }
}
