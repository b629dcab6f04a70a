//! TLS identity and client authorities of the key server, read at the start and on reload.

use std::{path::PathBuf, sync::Arc};

use parking_lot::RwLock;
use platform::tls;
use tokio_rustls::TlsAcceptor;

/// Paths of the TLS files, all PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The key server's certificate and the chain above it.
    pub certificate: PathBuf,
    /// The key of `certificate`.
    pub key: PathBuf,
    /// Certificates of the authorities that may have signed an edge's.
    pub edge_authorities: PathBuf,
}

impl Files {
    /// Reads the files. The acceptor resumes no earlier session: a resumed session does not present
    /// its certificate again, and its authority may have been removed.
    ///
    /// # Errors
    /// A file is missing or has other content than expected; the error names it.
    pub fn read(&self) -> anyhow::Result<TlsAcceptor> {
        let roots = Some(self.edge_authorities.as_path());
        let mut tls = tls::server(&self.certificate, &self.key, roots)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }
}

/// TLS configuration of new handshakes, replaceable at run time.
pub struct Tls(RwLock<TlsAcceptor>);

impl Tls {
    /// Uses `acceptor` until it is replaced.
    pub fn new(acceptor: TlsAcceptor) -> Self {
        Self(RwLock::new(acceptor))
    }

    /// Uses `acceptor` for new handshakes; open connections continue.
    pub fn replace(&self, acceptor: TlsAcceptor) {
        *self.0.write() = acceptor;
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().clone()
    }
}
