//! TLS to an origin.

use std::fmt;

use boring::{
    ssl::{SslConnector, SslMethod, SslVersion},
    x509::store::X509StoreBuilder,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{CertificateChain, Error, TlsStream};

/// Connects to origins, and accepts only certificates that chain to a known root.
#[derive(Clone)]
pub struct Connector(SslConnector);

impl Connector {
    /// `roots` in PEM; the system's if absent.
    ///
    /// # Errors
    /// The roots are no certificates.
    pub fn new(roots: Option<&[u8]>) -> Result<Self, Error> {
        let setup = |error: boring::error::ErrorStack| Error::Setup(error.to_string());
        let mut builder = SslConnector::builder(SslMethod::tls()).map_err(setup)?;
        if let Some(roots) = roots {
            let mut store = X509StoreBuilder::new().map_err(setup)?;
            for root in CertificateChain::from_pem(roots)?.0 {
                store.add_cert(&root).map_err(setup)?;
            }
            builder.set_cert_store_builder(store);
        }
        builder.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(setup)?;
        builder.set_alpn_protos(b"\x08http/1.1").map_err(setup)?;
        Ok(Self(builder.build()))
    }

    /// Connects over `stream` to `domain`.
    ///
    /// # Errors
    /// The handshake failed, or the certificate is not `domain`'s.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin + fmt::Debug>(
        &self,
        domain: &str,
        stream: S,
    ) -> Result<TlsStream<S>, Error> {
        let wrong = |reason: String| Error::Connect { domain: domain.to_owned(), reason };
        let setup = self.0.configure().map_err(|error| wrong(error.to_string()))?;
        tokio_boring::connect(setup, domain, stream)
            .await
            .map_err(|error| wrong(crate::acceptor::describe(&error)))
    }
}
