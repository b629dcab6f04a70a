//! TLS to clients.

use std::{io, path::PathBuf, sync::Arc};

use parking_lot::RwLock;
use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::HTTP2;

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
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has other content than expected.
    pub fn read(&self) -> anyhow::Result<Arc<ServerConfig>> {
        super::covers(&self.certificate, &self.names)?;
        let authority = self.authority.as_deref();
        Ok(Arc::new(super::server(&self.certificate, &self.key, authority)?))
    }
}

impl Files {
    /// What a client must present, for the log.
    pub fn expectation(&self) -> String {
        self.authority.as_ref().map_or_else(
            || "TLS 1.2 or 1.3".to_owned(),
            |path| format!("a certificate signed by an authority in {}", path.display()),
        )
    }
}

/// The TLS configuration of new handshakes.
#[derive(Debug)]
pub struct Server {
    files: Files,
    config: RwLock<Arc<ServerConfig>>,
}

impl Server {
    /// Encryption with the content of the files, until it is replaced.
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

    /// Uses `config` for new handshakes; open connections continue. Earlier session tickets are not
    /// accepted.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.config.write() = config;
    }

    /// Completes the handshake of a client that offers HTTP/2, which it then speaks.
    ///
    /// # Errors
    /// The handshake fails.
    pub async fn accept_http2(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let mut config = ServerConfig::clone(&self.config.read());
        config.alpn_protocols = vec![HTTP2.to_vec()];
        TlsAcceptor::from(Arc::new(config)).accept(stream).await
    }

    /// Whether it requires client certificates.
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
