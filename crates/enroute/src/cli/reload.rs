//! Reads the configuration again while the cache serves, on SIGHUP and on `POST /reload`.
//!
//! What can change at once does, without closing a connection; any other change is named in the log
//! as requiring a restart. A file with a mistake changes nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use platform::{certificate::Watch, wall_clock};
use tracing::{info, warn};

use super::signal::on_hangup;
use crate::{
    admin::Reloaded,
    config::{Document, ListenerDocument},
    runtime::{Protocol, Shared, StorageLimits},
};

/// A running cache, and where its configuration is read.
pub(super) struct Reload {
    /// The configuration in force.
    running: Mutex<Document>,
    shared: Arc<Shared>,
    certificates: Watch,
    read: Box<dyn Fn() -> anyhow::Result<Document> + Send + Sync>,
}

impl Reload {
    /// Applies what `read` returns to `shared` on SIGHUP; `running` is the configuration at the
    /// start.
    pub(super) fn start(
        running: Document,
        shared: Arc<Shared>,
        read: impl Fn() -> anyhow::Result<Document> + Send + Sync + 'static,
    ) -> anyhow::Result<Arc<Self>> {
        let certificates = Watch::start(shared.certificates()?)?;
        let (running, read) = (Mutex::new(running), Box::new(read));
        let reload = Arc::new(Self { running, shared, certificates, read });
        let on_signal = Arc::clone(&reload);
        on_hangup(move || on_signal.apply("SIGHUP").map(drop))?;
        Ok(reload)
    }

    /// Reads the configuration and applies it because of `cause`.
    ///
    /// # Errors
    /// The mistake; nothing has changed.
    pub(super) fn apply(&self, cause: &str) -> anyhow::Result<Reloaded> {
        let mut running = self.running.lock();
        let wanted = (self.read)()?;
        let shared = &self.shared;
        let next = running.adopting(&wanted);
        let credentials: Vec<_> =
            next.listeners.iter().map(ListenerDocument::credentials).collect::<Result<_, _>>()?;
        if shared.uses_tls() {
            let lives = shared.certificates()?;
            shared.reload_tls()?;
            self.certificates.replace(lives);
            info!("{cause}: TLS files read again; new connections use them");
        }
        next.apply_to(shared);
        for (listener, mut known) in shared.listeners.iter().zip(credentials) {
            if let Protocol::DynamoDb(settings) = &listener.protocol {
                settings.credentials.update(|before| {
                    known.keep_lent_of(before, wall_clock::now());
                    let (url, keys) = (listener.url(), known.count());
                    info!("{cause}: {url}: credentials read again; {keys} access keys are known");
                    Some(known)
                });
            }
        }
        let reloaded =
            Reloaded { changed: running.changes(&next), needs_restart: next.changes(&wanted) };
        *running = next;
        for name in &reloaded.changed {
            info!("{cause}: {name} changed");
        }
        for name in &reloaded.needs_restart {
            warn!("{cause}: {name} changed in the file; restart to apply it");
        }
        Ok(reloaded)
    }
}

impl Document {
    /// Applies what can change at once to a cache that was started with the same listeners.
    fn apply_to(&self, shared: &Shared) {
        let memory = self.storage().memory;
        let limits = StorageLimits { items_max: memory.items_max, bytes_max: memory.bytes_max };
        shared.shards.resize(|present| *present = limits);
        // The origins are those of the start, in the same order.
        shared.shards.bound(&self.portions(0));
        let mut shortened = false;
        for (listener, written) in shared.listeners.iter().zip(&self.listeners) {
            listener.limit(self.session(), self.connections_max());
            shortened |= listener.protocol.rules().replace(self.rules(written));
        }
        if shortened {
            shared.shards.clear();
            info!("a ttl is shorter now: all entries dropped");
        }
    }
}
