//! Settings shared by all DynamoDB connections to one origin.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use wire::{dynamodb::reply::RequestId, http1::Limits, sigv4::Credentials};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::Tables;
use crate::{live::Live, rules::LiveRules};

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
    /// Whether answers to `Query` and `Scan` are stored. `tables` must know it of each listener.
    pub caches_queries: bool,
    /// What is known of tables, in all listeners of the process.
    pub tables: Arc<Tables>,
    /// The time of day, since 1970, at time zero of this process.
    pub clock: Duration,
    /// Number of replies that the cache has written.
    pub replies: AtomicU64,
}

impl Settings {
    /// Returns the same settings for an origin at another address.
    #[must_use]
    pub fn at(&self, origin: String) -> Self {
        Self {
            origin,
            secret: self.secret,
            limits: self.limits.clone(),
            keys: Arc::clone(&self.keys),
            credentials: Arc::clone(&self.credentials),
            caches_queries: self.caches_queries,
            tables: Arc::clone(&self.tables),
            clock: self.clock,
            replies: AtomicU64::default(),
        }
    }

    /// What bounds the time for which a write that bypasses the cache is not seen.
    #[must_use]
    pub fn bound_by(&self) -> &'static str {
        match self.credentials.current().count() {
            0 => "no access key is known, so nothing is stored; see `credentials_file`",
            _ => "no feed: the bound is `ttl`",
        }
    }

    /// Names the next reply that the cache writes.
    pub(super) fn request_id(&self) -> RequestId {
        let number = self.replies.fetch_add(1, Relaxed).to_le_bytes();
        RequestId(xxh3_128_with_seed(&number, self.secret))
    }
}
