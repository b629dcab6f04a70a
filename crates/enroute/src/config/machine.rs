//! Checks of a configuration against the machine: existing files, names in certificates,
//! available memory.

use std::path::Path;

use platform::memory;

use super::{
    Bytes, Document, KeyPlace,
    mistake::{Mistake, Place},
};

impl Document {
    /// The first requirement that this machine does not meet.
    pub(super) fn find_missing(&self) -> Result<(), Mistake> {
        self.find_missing_memory()?;
        for (number, listener) in self.listeners.iter().enumerate() {
            for (field, login) in [("feed", &listener.feed), ("sentinel", &listener.sentinel)] {
                let path = login.as_ref().and_then(|login| login.password_file.as_deref());
                missing(path, Place::Listener(number, field))?;
            }
            for (field, path) in listener.tls_files() {
                missing(Some(path), Place::Listener(number, field))?;
            }
            let wrong = |field| {
                move |error: anyhow::Error| {
                    let message = format!("{error:#}");
                    Mistake { at: Some(Place::Listener(number, field)), message }
                }
            };
            listener.check_access_key().map_err(wrong("feed"))?;
            listener.server_tls().map_err(wrong("tls"))?;
            let written = listener.origin_tls.as_ref().map_or("origin", |_| "origin_tls");
            listener.client_tls().map_err(wrong(written))?;
        }
        let Some(edge) = &self.edge else { return Ok(()) };
        if let Some(identity) = &edge.identity {
            for path in [&identity.certificate, &identity.key, &identity.authorities] {
                missing(Some(path), Place::Edge("identity"))?;
            }
        }
        for (number, site) in edge.sites.iter().enumerate() {
            missing(Some(&site.certificate), Place::Site(number, "certificate"))?;
            let authorities = site.origin_authorities.as_deref();
            missing(authorities, Place::Site(number, "origin_authorities"))?;
            if let KeyPlace::File(path) = &site.key {
                missing(Some(path), Place::Site(number, "key"))?;
            }
            // What is in the files is read by the edge itself.
            #[cfg(feature = "edge")]
            edge.check_site(site).map_err(|(field, error)| {
                let message = format!("{error:#}");
                Mistake { at: Some(Place::Site(number, field)), message }
            })?;
        }
        Ok(())
    }

    fn find_missing_memory(&self) -> Result<(), Mistake> {
        let content = self.edge.as_ref().and_then(|edge| edge.content.memory);
        for (memory, at) in
            [(self.storage.memory, Place::Storage("memory")), (content, Place::Edge("content"))]
        {
            if let Some(message) = memory.and_then(lacks) {
                return Err(Mistake { at: Some(at), message });
            }
        }
        Ok(())
    }
}

/// Error if the machine has too little memory for a process with `memory` for items; `None` if it
/// has enough.
pub(crate) fn lacks(memory: Bytes) -> Option<String> {
    memory::lacks(memory::process_bytes(memory.count() as u64))
}

/// A file that is missing or cannot be read.
fn missing(path: Option<&Path>, at: Place) -> Result<(), Mistake> {
    let Some(path) = path else { return Ok(()) };
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            Err(Mistake { at: Some(at), message })
        }
    }
}
