//! Options of TLS on the command line of the cache.

use std::path::PathBuf;

use clap::Args;

use crate::config::{OriginTlsDocument, TlsDocument};

#[derive(Debug, Clone, Args)]
#[group(id = "tls")]
pub(super) struct Arguments {
    /// Certificate and chain for TLS to clients, PEM; read again on SIGHUP [default: no TLS]
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "listen"])]
    tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Require a client certificate signed by an authority in this file, PEM [default: clients need
    /// no certificate]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,

    /// Authorities that may have signed the certificate of the database, PEM [default: those of the
    /// system]
    #[arg(long, value_name = "FILE", requires = "origin")]
    origin_tls_ca: Option<PathBuf>,

    /// Certificate for a database that requires one of its clients, PEM
    #[arg(long, value_name = "FILE", requires_all = ["origin_tls_key", "origin"])]
    origin_tls_cert: Option<PathBuf>,

    /// Private key of --origin-tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "origin_tls_cert")]
    origin_tls_key: Option<PathBuf>,

    /// Name in the certificate of the database [default: the host in --origin]
    #[arg(long, value_name = "NAME", requires = "origin")]
    origin_tls_name: Option<String>,
}

impl Arguments {
    /// TLS to clients.
    pub(super) fn clients(&self) -> Option<TlsDocument> {
        let (cert, key) = (Some(self.tls_cert.clone()?), self.tls_key.clone());
        let (ca, names, pass_through) = (self.tls_ca.clone(), Vec::new(), false);
        Some(TlsDocument { cert, key, ca, names, pass_through })
    }

    /// TLS to the origin.
    pub(super) fn origin(&self) -> Option<OriginTlsDocument> {
        let written = OriginTlsDocument {
            ca: self.origin_tls_ca.clone(),
            cert: self.origin_tls_cert.clone(),
            key: self.origin_tls_key.clone(),
            name: self.origin_tls_name.clone(),
        };
        (written != OriginTlsDocument::default()).then_some(written)
    }
}
