//! TLS to clients.

use std::{path::PathBuf, sync::Arc};

use parking_lot::RwLock;
use rustls::{ServerConfig, ServerConnection};

/// Where it is written, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Certificate and the chain above it.
    pub certificate: PathBuf,
    /// Key of `certificate`.
    pub key: PathBuf,
    /// Authorities of clients: each client must have a certificate signed by one of them.
    pub authority: Option<PathBuf>,
    /// DNS names that `certificate` must be valid for.
    pub names: Vec<String>,
}

impl Files {
    /// What they say now.
    ///
    /// # Errors
    /// A file that cannot be read or does not hold what it should.
    pub fn read(&self) -> anyhow::Result<Arc<ServerConfig>> {
        super::covers(&self.certificate, &self.names)?;
        let authority = self.authority.as_deref();
        Ok(Arc::new(super::server(&self.certificate, &self.key, authority)?))
    }
}

/// What new handshakes begin with.
#[derive(Debug)]
pub struct Server {
    files: Files,
    config: RwLock<Arc<ServerConfig>>,
}

impl Server {
    /// Encryption with what the files say, until it is replaced.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub fn new(files: Files) -> anyhow::Result<Self> {
        let config = RwLock::new(files.read()?);
        Ok(Self { files, config })
    }

    /// Where it is written.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// From now on this; open connections continue. Session tickets of before are not accepted.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.config.write() = config;
    }

    /// Whether it requires a client certificate of an authority.
    pub fn knows_clients(&self) -> bool {
        self.files.authority.is_some()
    }

    /// The server's end of a new connection.
    ///
    /// # Errors
    /// Those of rustls.
    pub fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config.read()))
    }
}
