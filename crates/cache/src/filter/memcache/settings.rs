//! Settings shared by all memcached connections to one origin.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use wire::memcache::Limits;

use super::{flush::Flushes, wins::Wins};
use crate::rules::LiveRules;

/// Settings shared by all connections to one origin.
#[derive(Debug, Default)]
pub struct Settings {
    /// Name of the origin; keys of different ones never meet.
    pub origin: String,
    /// Mixed into the hashes of keys; random for each process, the same for all its listeners.
    pub secret: u64,
    /// Limits of the codec.
    pub limits: Limits,
    /// The keys that may be stored, and for how long.
    pub keys: Arc<LiveRules>,
    /// Values that a write states are stored ([`crate::storage::Population::OnWrite`]).
    pub on_write: bool,
    /// The time of day, since 1970, at time zero of this process.
    pub clock: Duration,
    /// Pending flushes.
    pub flushes: Flushes,
    /// Rights to replace stale items, kept for clients.
    pub wins: Wins,
    /// The origin has answered a client that was not logged in: it requires no login.
    pub open: AtomicBool,
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
            on_write: self.on_write,
            clock: self.clock,
            flushes: Flushes::default(),
            wins: Wins::default(),
            open: AtomicBool::default(),
        }
    }
}
