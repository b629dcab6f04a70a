//! Reads the configuration again on SIGHUP while the cache serves.
//!
//! The limits of storage and the files of TLS change at once; any other change is logged as
//! requiring a restart. A file with a mistake changes nothing.

use std::sync::Arc;

use platform::certificate::Watch;
use tracing::{info, warn};

use super::signal::on_hangup;
use crate::{
    config::Document,
    runtime::{Shared, StorageLimits},
};

/// Applies what `read` returns to `shared` on SIGHUP; `running` is the configuration at the start.
pub(super) fn listen(
    mut running: Document,
    shared: Arc<Shared>,
    certificates: Watch,
    read: impl Fn() -> anyhow::Result<Document> + Send + 'static,
) -> anyhow::Result<()> {
    on_hangup(move || {
        let document = read()?;
        if shared.uses_tls() {
            let lives = shared.certificates()?;
            shared.reload_tls()?;
            certificates.replace(lives);
            info!("SIGHUP: TLS files read again; new connections use them");
        }
        apply(&document, &mut running, &shared);
        Ok(())
    })
}

fn apply(document: &Document, running: &mut Document, shared: &Shared) {
    let memory = document.storage().memory;
    let limits = StorageLimits { items_max: memory.items_max, bytes_max: memory.bytes_max };
    shared.shards.resize(|present| *present = limits);
    running.storage.capacity = document.storage.capacity;
    running.storage.memory = document.storage.memory;
    info!(items_max = limits.items_max, bytes_max = limits.bytes_max, "SIGHUP: storage resized");
    for name in running.changes(document) {
        warn!("SIGHUP: {name} changed in the file; restart to apply it");
    }
}
