//! TLS identity and client authorities of the key server, read at the start and on reload.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use parking_lot::RwLock;
use rustls::{ServerConfig, server::WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;

use crate::{
    private_file,
    tls::{authorities, certificates},
};

/// Where it is written, all PEM.
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
    /// What they say. It accepts no earlier session: a resumed session does not present its
    /// certificate again, and its authority may have been removed.
    ///
    /// # Errors
    /// Which file is not there or not what it should be.
    pub fn read(&self) -> anyhow::Result<TlsAcceptor> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = authorities(&self.edge_authorities)?;
        // The handshake requires a certificate of one of these authorities.
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()?;
        let key = private_file::read_private_key(&self.key)?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate)?, key)
            .with_context(|| {
                format!("the certificate {} and its key do not match", self.certificate.display())
            })?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }
}

/// What new handshakes begin with.
pub struct Tls(RwLock<TlsAcceptor>);

impl Tls {
    /// This, until it is replaced.
    pub fn new(acceptor: TlsAcceptor) -> Self {
        Self(RwLock::new(acceptor))
    }

    /// From now on this; open connections go on.
    pub fn replace(&self, acceptor: TlsAcceptor) {
        *self.0.write() = acceptor;
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().clone()
    }
}
