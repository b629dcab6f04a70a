//! Options of TLS to clients.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use platform::tls;

#[derive(Debug, Clone, Args)]
pub(super) struct TlsFiles {
    /// Certificate chain, PEM; all connections are then encrypted [default: no TLS]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Authority that must have signed the client's certificate, PEM [default: no client
    /// certificate is required]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

impl TlsFiles {
    pub(super) fn are_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Reads the files, if there are any.
    pub(super) fn server(&self) -> anyhow::Result<Option<Arc<tls::Server>>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let (certificate, key) = (certificate.clone(), key.clone());
        let authority = self.tls_ca.clone();
        let files = tls::Files { certificate, key, authority, names: Vec::new() };
        Ok(Some(Arc::new(tls::Server::new(files)?)))
    }
}
