//! Settings shared by all Redis connections to one origin.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Relaxed, SeqCst},
    },
};

use wire::resp::Limits;

use super::{Access, Addresses, Tracked};
use crate::{filter::Greetings, key::Namespace, rules::LiveRules};

/// Settings shared by all connections to one origin.
#[derive(Debug, Default)]
pub struct Settings {
    /// Name of the origin, or of the cluster it belongs to; keys of different ones never meet.
    pub origin: String,
    /// Mixed into the hashes of keys; random for each process, the same for all its listeners.
    pub secret: u64,
    /// Limits of the codec.
    pub limits: Limits,
    /// The keys that may be stored, and for how long.
    pub keys: Arc<LiveRules>,
    /// The keys that a script is assumed to write.
    pub scripts: Scripts,
    /// Values that a write states are stored ([`crate::storage::Population::OnWrite`]).
    pub on_write: bool,
    /// A [`crate::feed::Feed`] reports writes that bypass the cache. Only the first
    /// [`FEED_DATABASES`] databases are cached then.
    pub feed: bool,
    /// The keys that the feed has the origin report, if it asks for each.
    pub tracked: Tracked,
    /// The origin is a node of a cluster, whose listeners share their entries.
    pub clustered: bool,
    /// That node.
    pub node: Node,
    /// The databases clients have chosen.
    pub databases: Databases,
    /// The origin's last reply to HELLO, used while it cannot be reached, for as long as an entry.
    pub greetings: Arc<Greetings>,
    /// The addresses that clients are given for the nodes of a cluster.
    pub addresses: Arc<Addresses>,
    /// How to ask the origin for a user's rights.
    pub access: Access,
    /// Handling of replies to users without the right to ask for a key's expiry.
    pub unknown_expiry: Expiry,
}

impl Settings {
    /// The same for the origin of another address, without a feed: that comes from one origin.
    #[must_use]
    pub fn at(&self, origin: String) -> Self {
        Self {
            origin,
            secret: self.secret,
            limits: self.limits.clone(),
            keys: Arc::clone(&self.keys),
            scripts: self.scripts,
            on_write: self.on_write,
            unknown_expiry: self.unknown_expiry,
            feed: false,
            tracked: Tracked::default(),
            clustered: self.clustered,
            node: Node::default(),
            databases: Databases::default(),
            greetings: Arc::default(),
            addresses: Arc::clone(&self.addresses),
            access: Access::default(),
        }
    }
}

/// Number of databases that a feed covers: the default number of databases of a server.
pub const FEED_DATABASES: u32 = 16;

/// The node of a cluster that a listener has as its origin.
#[derive(Debug, Default)]
pub struct Node {
    address: String,
    reports: AtomicBool,
}

impl Node {
    /// The node at this `host:port`.
    #[must_use]
    pub fn at(address: String) -> Self {
        Self { address, reports: AtomicBool::new(false) }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether its feed is established. Otherwise nothing that is read there is stored or served,
    /// even if all nodes with slots report their writes.
    pub(crate) fn reports(&self) -> bool {
        self.reports.load(SeqCst)
    }

    pub(crate) fn report(&self, reports: bool) {
        self.reports.store(reports, SeqCst);
    }
}

/// The databases that clients have selected, of those that a feed covers.
#[derive(Debug, Default)]
pub struct Databases(AtomicU32);

impl Databases {
    /// Numbers of the databases; every client begins in 0.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let chosen = self.0.load(Relaxed) | 1;
        (0..FEED_DATABASES).filter(move |database| chosen & (1 << database) != 0)
    }

    pub(crate) fn choose(&self, database: u32) {
        if database < FEED_DATABASES {
            self.0.fetch_or(1 << database, Relaxed);
        }
    }
}

/// The keys that a script or function is assumed to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scripts {
    /// Anything: a script can write keys it does not declare.
    #[default]
    Everything,
    /// The keys it declares, as a cluster demands.
    DeclaredKeys,
}

/// Handling of a reply if the user may not run PTTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// The reply is not stored, because the key may expire at any time.
    #[default]
    NotStored,
    /// The reply is stored for the full `ttl`: keys of this origin do not expire, or may be served
    /// after they have expired.
    Ttl,
}

/// The namespace of a database.
pub(crate) fn namespace(settings: &Settings, database: u32) -> Namespace {
    let database = database.to_le_bytes();
    Namespace::new(settings.secret, &settings.origin, &database, &database)
}
