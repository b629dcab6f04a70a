//! Where clients connect: a listening socket, its protocol and its origin.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use cache::{
    feed::{self, Reporter},
    filter::{dynamodb, memcache, mongo, resp},
    key,
    rules::LiveRules,
    session,
    storage::shards::{Shards, Share},
    watch::Speaks,
};
use endpoint::{Told, seldom};
use parking_lot::RwLock;
use platform::{diverted::original_destination, tls};
use reactor::{Acceptor, Events, Reactor};
use tokio::sync::mpsc;
use tracing::{debug, info};

use super::{
    Lender, Monitored, Origin, Shared, behind::Behind, feed::Source, hello::Hello, inbox::Note,
    monitor, tls::Shaking, watch, worker::Accepted,
};

/// Protocol of a listener's clients.
#[derive(Clone)]
pub enum Protocol {
    /// MongoDB.
    Mongo(Arc<mongo::Settings>),
    /// Redis or Valkey.
    Resp(Arc<resp::Settings>),
    /// memcached.
    Memcache(Arc<memcache::Settings>),
    /// DynamoDB.
    DynamoDb(Arc<dynamodb::Settings>),
}

impl Protocol {
    /// The name used in addresses and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mongo(_) => "mongodb",
            Self::Resp(_) => "redis",
            Self::Memcache(_) => "memcached",
            Self::DynamoDb(_) => "dynamodb",
        }
    }

    /// Which keys are stored, and for how long.
    pub fn rules(&self) -> &LiveRules {
        match self {
            Self::Mongo(settings) => &settings.namespaces,
            Self::Resp(settings) => &settings.keys,
            Self::Memcache(settings) => &settings.keys,
            Self::DynamoDb(settings) => &settings.keys,
        }
    }

    /// The origin, as keys name it.
    fn origin(&self) -> u64 {
        let (secret, origin) = match self {
            Self::Mongo(settings) => (settings.secret, &settings.origin),
            Self::Resp(settings) => (settings.secret, &settings.origin),
            Self::Memcache(settings) => (settings.secret, &settings.origin),
            Self::DynamoDb(settings) => (settings.secret, &settings.origin),
        };
        key::origin(secret, origin)
    }

    /// Repeats nothing that the origin has said of itself.
    pub(super) fn forget_greetings(&self) {
        match self {
            Self::Mongo(settings) => settings.greetings.forget(),
            Self::Resp(settings) => settings.greetings.forget(),
            Self::Memcache(_) | Self::DynamoDb(_) => {}
        }
    }
}

/// One listening socket.
pub struct Listener {
    /// Protocol of its clients.
    pub protocol: Protocol,
    /// The origin.
    pub origin: Arc<Origin>,
    /// The origin of each connection is its original destination, not `origin`.
    pub diverted: bool,
    /// Lets the origin report writes that bypass the cache.
    pub feed: Option<feed::Config>,
    /// Where the feed connects, if that is not the origin.
    reports_at: Option<Arc<Origin>>,
    /// Finds the server of an origin that moves.
    pub(super) monitor: Option<Monitored>,
    /// Lends access keys.
    pub(super) lender: Option<Lender>,
    /// Clients connect with TLS.
    pub tls: Option<Arc<tls::Server>>,
    /// The TLS of clients is relayed to the origin as it is.
    pub(super) passes: bool,
    /// Server names that select it among the listeners of its address; none are any.
    pub(super) names: Vec<String>,
    /// Limits of each session that begins.
    session: RwLock<Arc<session::Config>>,
    /// Clients served at once; further ones are turned away.
    connections_max: AtomicUsize,
    /// Where it listens.
    pub address: SocketAddr,
    connections: AtomicUsize,
    /// Clients whose handshake of TLS is not complete.
    pub(super) shaking: AtomicUsize,
    pub(super) told: Told,
}

impl Listener {
    /// A listener at `address`, which is known once it is bound.
    pub fn new(
        protocol: Protocol,
        origin: Origin,
        session: session::Config,
        connections_max: usize,
        address: SocketAddr,
    ) -> Self {
        let (connections, shaking) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (origin, diverted, feed) = (Arc::new(origin), false, None);
        Self {
            protocol,
            origin,
            diverted,
            feed,
            reports_at: None,
            monitor: None,
            lender: None,
            tls: None,
            passes: false,
            names: Vec::new(),
            session: RwLock::new(Arc::new(session)),
            connections_max: AtomicUsize::new(connections_max),
            address,
            connections,
            shaking,
            told: Told::default(),
        }
    }

    /// The same for clients that connect with TLS and want one of `names`, or any if there are
    /// none.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<tls::Server>>, names: Vec<String>) -> Self {
        Self { tls, names, ..self }
    }

    /// The same for clients whose TLS ends at the origin.
    #[must_use]
    pub fn with_pass_through(self, passes: bool) -> Self {
        Self { passes, ..self }
    }

    /// The same for connections that the kernel diverts here: the origin of each is its original
    /// destination.
    #[must_use]
    pub fn with_diverted(self, diverted: bool) -> Self {
        Self { diverted, ..self }
    }

    /// The same with a feed from its origin, or from another server of it; its settings must say so
    /// too.
    #[must_use]
    pub fn with_feed(self, feed: Option<feed::Config>, server: Option<Origin>) -> Self {
        Self { feed, reports_at: server.map(Arc::new), ..self }
    }

    /// The same with access keys that are lent.
    #[must_use]
    pub fn with_lender(self, lender: Option<Lender>) -> Self {
        Self { lender, ..self }
    }

    /// The same with an origin that moves.
    #[must_use]
    pub fn with_monitor(self, monitor: Option<Monitored>) -> Self {
        Self { monitor, ..self }
    }

    /// Settings of the monitor that finds its origin, if it has one.
    pub(super) fn monitor_source(&self) -> Option<monitor::Source> {
        let (config, watched) = (self.monitor.clone()?, self.watch_source()?);
        let (origin, protocol) = (watched.origin, self.protocol.clone());
        Some(monitor::Source { origin, protocol, scope: watched.scope, config })
    }

    /// Longest time for which a write that bypasses the cache can stay unseen.
    pub fn staleness_bound(&self) -> Duration {
        let ttl = self.protocol.rules().current().ttl_max();
        self.feed.as_ref().map_or(ttl, |feed| feed.silence_max.min(ttl))
    }

    /// Settings of the listener's feed, if it has one.
    pub(super) fn feed_source(&self) -> Option<Source> {
        let config = self.feed.clone()?;
        let reporter = match &self.protocol {
            Protocol::Mongo(settings) => Reporter::Mongo(Arc::clone(settings)),
            Protocol::Resp(settings) => Reporter::Redis(Arc::clone(settings)),
            Protocol::DynamoDb(settings) => Reporter::DynamoDb(Arc::clone(settings)),
            // The configuration refuses it: no connection reports its writes.
            Protocol::Memcache(_) => return None,
        };
        let origin = Arc::clone(self.reports_at.as_ref().unwrap_or(&self.origin));
        Some(Source { reporter, origin, config })
    }

    /// Settings of the watch of its origin; `None` if each connection has its own origin, or
    /// nothing is stored.
    fn watch_source(&self) -> Option<watch::Source> {
        let login = self.feed.as_ref().and_then(|config| config.login.clone());
        let (secret, name, speaks) = match &self.protocol {
            Protocol::Mongo(settings) => (settings.secret, &settings.origin, Speaks::Mongo),
            Protocol::Resp(settings) => (settings.secret, &settings.origin, Speaks::Resp(login)),
            Protocol::Memcache(settings) => (settings.secret, &settings.origin, Speaks::Memcache),
            // Many servers behind one address, none of which says what it is.
            Protocol::DynamoDb(_) => return None,
        };
        let (listen, origin) = (self.address, Arc::clone(&self.origin));
        let scope = match &self.monitor {
            // Nothing of a secondary is stored, so that nothing is dropped when it is another one.
            Some(Monitored::ByMembers(members)) if members.secondary => {
                watch::Source::scope_of(secret, &format!("secondary of {name}"))
            }
            _ => watch::Source::scope_of(secret, name),
        };
        (!self.diverted && !self.passes).then_some(watch::Source { listen, origin, scope, speaks })
    }

    /// Settings of the watches of its origin: one for each server.
    pub(super) fn watch_sources(&self) -> Vec<watch::Source> {
        let Some(source) = self.watch_source() else { return Vec::new() };
        let of_server = |server: &Arc<Origin>| {
            let origin = Arc::clone(server);
            watch::Source { origin, ..source.clone() }
        };
        match self.origin.servers() {
            Some(servers) => servers.list.iter().map(of_server).collect(),
            None => vec![source],
        }
    }

    /// Whether the first bytes of its clients decide how they are served.
    pub(super) fn is_looked_at(&self) -> bool {
        !self.names.is_empty() || self.passes || self.takes_http2()
    }

    /// Whether clients of HTTP/2 are served.
    pub(super) fn takes_http2(&self) -> bool {
        matches!(self.protocol, Protocol::DynamoDb(_)) && !self.passes
    }

    pub(super) fn behind(&self, stream: &TcpStream) -> io::Result<Behind> {
        let behind = Behind { protocol: self.protocol.clone(), origin: Arc::clone(&self.origin) };
        if !self.diverted {
            return Ok(behind);
        }
        let original = original_destination(stream, self.address)?;
        debug!(%original, "diverted connection accepted");
        Ok(behind.at(original))
    }

    /// Limits of a session that begins.
    pub(super) fn session(&self) -> Arc<session::Config> {
        Arc::clone(&self.session.read())
    }

    /// Clients served at once.
    pub fn connections_max(&self) -> usize {
        self.connections_max.load(Relaxed)
    }

    /// Replaces the limits. Sessions keep those that they began with; no client is turned away that
    /// is served already.
    pub fn limit(&self, session: session::Config, connections_max: usize) {
        *self.session.write() = Arc::new(session);
        self.connections_max.store(connections_max, Relaxed);
    }

    /// The memory of its origin; `None` if it stores nothing, or all memory is for one origin.
    pub fn share(&self, shards: &Shards) -> Option<Share> {
        shards.share((!self.diverted).then(|| self.protocol.origin()))
    }

    /// Clients being served.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    pub(super) fn left(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(super) fn report_full(&self, peer: SocketAddr) {
        seldom!(self.told, Full => warn, %peer, listen = %self.address, limit = self.connections_max(),
            "connection rejected: connections_max is reached");
    }

    /// Logs that the socket of a client cannot be used.
    pub(super) fn report_socket(&self, peer: SocketAddr, error: &io::Error) {
        seldom!(self.told, Socket => warn, %peer, listen = %self.address,
            "connection closed: cannot set up its socket: {error}");
    }

    /// Counts a client, unless the limit is reached.
    pub(super) fn enter(&self) -> bool {
        let limit = self.connections_max();
        let room = |count| (count < limit).then_some(count + 1);
        self.connections.fetch_update(Relaxed, Relaxed, room).is_ok()
    }
}

/// Accepts clients of all listeners and deals them out to the workers in turn, until draining.
///
/// One thread for all: connections are rare beside requests, and dealing them out evenly is what
/// lets every core be used with a handful of clients. The token of an acceptor is its place in
/// `listeners`.
pub(super) fn accept(
    shared: &Shared,
    reactor: &Reactor,
    mut listeners: Vec<(Acceptor, Arc<Listener>)>,
    hellos: &mpsc::UnboundedSender<Hello>,
) -> io::Result<()> {
    let (mut turn, mut events) = (0, Events::with_capacity(listeners.len().max(1)));
    while shared.accepts() {
        let patience = listeners.iter().filter_map(|(acceptor, _)| acceptor.patience()).min();
        reactor.wait(&mut events, Some(patience.unwrap_or(LOOK_PAUSE)))?;
        for (token, _) in events.iter() {
            if let Some((acceptor, _)) = listeners.get_mut(token as usize) {
                acceptor.notice();
            }
        }
        for (acceptor, listener) in &mut listeners {
            for _ in 0..ACCEPTED_AT_ONCE {
                if listener.has_enough_handshakes() {
                    break;
                }
                let Some((stream, peer)) = acceptor.accept() else { break };
                turn = (turn + 1) % shared.post.len();
                if listener.is_looked_at() {
                    // Its end is reported by the thread itself.
                    let _ = hellos.send(Hello::new(stream, peer, turn, listener));
                } else {
                    admit(shared, turn, (stream, peer), listener);
                }
            }
        }
    }
    info!("new connections are no longer accepted");
    Ok(())
}

/// Gives a client of `listener` to the worker whose `turn` it is.
pub(super) fn admit(
    shared: &Shared,
    turn: usize,
    (stream, peer): (TcpStream, SocketAddr),
    listener: &Arc<Listener>,
) {
    if !listener.enter() {
        listener.report_full(peer);
        return;
    }
    match listener.behind(&stream) {
        Ok(behind) => {
            let (shaking, listener) = (Shaking::begin(listener), Arc::clone(listener));
            hand_over(shared, turn, Accepted { stream, peer, listener, behind, shaking });
        }
        Err(error) => {
            listener.report_socket(peer, &error);
            listener.left();
        }
    }
}

/// Gives a client that was counted to the worker whose `turn` it is.
pub(super) fn hand_over(shared: &Shared, turn: usize, accepted: Accepted) {
    shared.post.inbox(turn).send(Note::Accepted(Box::new(accepted)));
}

/// Maximum interval of checks whether draining has begun.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Clients taken from one listener before the others have their turn.
const ACCEPTED_AT_ONCE: usize = 64;
