//! TLS towards those who connect to us.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use parking_lot::RwLock;
use rustls::{
    ServerConfig, ServerConnection,
    crypto::aws_lc_rs::Ticketer,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};

use super::{authorities, certificates, do_not_match, provider};
use crate::private_file;

/// Where it is written, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Certificate and the chain above it.
    pub certificate: PathBuf,
    /// Key of `certificate`.
    pub key: PathBuf,
    /// Authorities of clients: each client must have a certificate signed by one of them.
    pub authority: Option<PathBuf>,
}

impl Files {
    /// What they say now.
    ///
    /// # Errors
    /// A file that cannot be read or does not hold what it should.
    pub fn read(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let chain = certificates(&self.certificate)?;
        let secret = private_file::read_private_key(&self.key)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?;
        let builder = match &self.authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, secret)
            .with_context(|| do_not_match(&self.certificate, &self.key))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if self.authority.is_none() {
            // Keys are replaced every 6 h; a ticket is valid for up to 12 h.
            config.ticketer = Ticketer::new().context("cannot make keys for session tickets")?;
        } else {
            // A resumed session does not present its certificate again, which may have expired.
            config.send_tls13_tickets = 0;
        }
        Ok(Arc::new(config))
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
