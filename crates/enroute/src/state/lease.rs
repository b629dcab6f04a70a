//! Who may move slots: whoever holds the lease, a key of the cluster that expires.
//!
//! The holder counts from before it asked, and the cluster from after: so the holder's lease is over
//! first. It takes no step that could end after that.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{info, warn};

use super::{
    cluster::{Cluster, View},
    node::{LIMIT, Reply},
    report::PLACER,
};

/// How long the cluster keeps the lease for who does not renew it.
pub(super) const LEASE: Duration = Duration::from_secs(8);
/// It is renewed when so much of it is over.
const RENEW_AFTER: Duration = Duration::from_secs(1);
/// No step is begun in the last part of it: a step takes at most [`LIMIT`] and its connection another.
const LAST: Duration = Duration::from_secs(LIMIT.as_secs() * 2 + 1);

const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) else return 0 end";

/// A lease, held or not.
pub(super) struct Lease {
    name: String,
    asked: Mutex<Option<Instant>>,
}

impl Lease {
    pub(super) fn new(name: String) -> Self {
        Self { name, asked: Mutex::new(None) }
    }

    /// Whether it is held, and long enough for one step; renews it where due. Of many who ask at once one
    /// renews it, and the others wait for what comes of that.
    pub(super) fn assure(&self, cluster: &Cluster, view: &View) -> bool {
        let mut asked = self.asked.lock();
        if asked.is_none_or(|asked| asked.elapsed() >= RENEW_AFTER) {
            self.renew(&mut asked, cluster, view);
        }
        asked.is_some_and(|asked| asked.elapsed() + LAST < LEASE)
    }

    fn renew(&self, asked: &mut Option<Instant>, cluster: &Cluster, view: &View) {
        let now = Instant::now();
        let milliseconds = LEASE.as_millis().to_string();
        let key = PLACER.as_bytes();
        let reply = if asked.is_some() {
            cluster.ask_owner(view, key, &["EVAL", RENEW, "1", PLACER, &self.name, &milliseconds])
        } else {
            cluster.ask_owner(view, key, &["SET", PLACER, &self.name, "NX", "PX", &milliseconds])
        };
        match reply {
            Ok(Reply::Integer(1) | Reply::Text(_)) => {
                if asked.replace(now).is_none() {
                    info!(name = self.name, "this placer leads");
                }
            }
            Ok(_) => {
                if asked.take().is_some() {
                    warn!(name = self.name, "another placer leads now");
                }
            }
            // Perhaps it was renewed, perhaps not: what is left of the old one counts.
            Err(error) => warn!("cannot renew the lease: {error:#}"),
        }
    }

    /// Who holds it, by the cluster.
    pub(super) fn holder(cluster: &Cluster, view: &View) -> anyhow::Result<Option<String>> {
        Ok(cluster.ask_owner(view, PLACER.as_bytes(), &["GET", PLACER])?.text())
    }

    /// Leaves it to another at once.
    pub(super) fn release(&self, cluster: &Cluster, view: &View) {
        if self.asked.lock().take().is_some() {
            let words = ["EVAL", RELEASE, "1", PLACER, &self.name];
            if let Err(error) = cluster.ask_owner(view, PLACER.as_bytes(), &words) {
                warn!("cannot release the lease, it runs out by itself: {error:#}");
            }
        }
    }
}
