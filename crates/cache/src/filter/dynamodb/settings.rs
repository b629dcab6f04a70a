//! Settings shared by all DynamoDB connections to one origin.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use smallvec::SmallVec;
use wire::{dynamodb::reply::RequestId, http1::Limits, sigv4::Credentials};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{Tables, queries::pages_in};
use crate::{
    key::{Namespace, Scope},
    live::Live,
    rules::LiveRules,
};

/// Settings shared by all connections to one origin.
#[derive(Debug, Default)]
pub struct Settings {
    /// Name of the origin; keys of different ones never meet.
    pub origin: String,
    /// Mixed into the hashes of keys; random for each process, the same for all its listeners.
    pub secret: u64,
    /// Limits of the codec.
    pub limits: Limits,
    /// The tables that may be stored, and for how long.
    pub keys: Arc<LiveRules>,
    /// Access keys whose requests may be answered from storage; without one nothing is stored.
    pub credentials: Arc<Live<Credentials>>,
    /// Whether further access keys are lent while serving.
    pub lends: bool,
    /// Whether answers to `Query` and `Scan` are stored. `tables` must know it of each listener.
    pub caches_queries: bool,
    /// What is known of tables, in all listeners of the process.
    pub tables: Arc<Tables>,
    /// A [`crate::feed::Feed`] reads the streams of the tables. Only tables whose stream it reads
    /// are cached then.
    pub streams: Option<Streams>,
    /// The time of day, since 1970, at time zero of this process.
    pub clock: Duration,
    /// Number of replies that the cache has written.
    pub replies: AtomicU64,
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
            credentials: Arc::clone(&self.credentials),
            lends: self.lends,
            caches_queries: self.caches_queries,
            tables: Arc::clone(&self.tables),
            streams: None,
            clock: self.clock,
            replies: AtomicU64::default(),
        }
    }

    /// What bounds the time for which a write that bypasses the cache is not seen.
    #[must_use]
    pub fn bound_by(&self) -> &'static str {
        match self.credentials.current().count() {
            0 if self.lends => {
                "no feed: the bound is `ttl`; nothing is stored until an access key is lent"
            }
            0 => "no access key is known, so nothing is stored; see `credentials_file`",
            _ => "no feed: the bound is `ttl`",
        }
    }

    /// The namespace of the items of a table.
    pub(crate) fn table(&self, name: &[u8]) -> Namespace {
        Namespace::new(self.secret, &self.origin, b"", name)
    }

    /// Adds to what a write touches the pages that it can change, and notes its time.
    pub(crate) fn write_to(&self, scopes: &mut SmallVec<[Scope<'_>; 1]>, now: Duration) {
        self.add_pages(scopes);
        for &scope in &*scopes {
            self.tables.wrote(scope, now);
        }
    }

    /// Adds to what a write touches the pages that it can change.
    pub(crate) fn add_pages(&self, scopes: &mut SmallVec<[Scope<'_>; 1]>) {
        if self.tables.have_pages() {
            let pages = pages_in(scopes);
            scopes.extend(pages);
        }
    }

    /// Names the next reply that the cache writes.
    pub(super) fn request_id(&self) -> RequestId {
        let number = self.replies.fetch_add(1, Relaxed).to_le_bytes();
        RequestId(xxh3_128_with_seed(&number, self.secret))
    }
}

/// Maximum number of tables that are noted as wanted.
const WANTED_MAX: usize = 256;

/// How the streams of the tables are read.
#[derive(Debug, Default)]
pub struct Streams {
    /// Name and port of the server, as the header `Host` has them.
    pub host: String,
    /// The access key that signs. Its secret is among the credentials of the clients.
    pub access_key: String,
    /// The region. Requests that are signed for another one are not answered from storage.
    pub region: String,
    /// Tables whose reads are forwarded because their stream is not read.
    pub wanted: Wanted,
}

/// Tables that clients read although their stream is not read.
#[derive(Debug, Default)]
pub struct Wanted(Mutex<BTreeSet<String>>);

impl Wanted {
    /// Notes that a client reads a table.
    pub(super) fn note(&self, table: &str) {
        let mut tables = self.0.lock();
        if tables.len() < WANTED_MAX && !tables.contains(table) {
            tables.insert(table.to_owned());
        }
    }

    /// The tables so far.
    pub(crate) fn tables(&self) -> BTreeSet<String> {
        self.0.lock().clone()
    }
}
