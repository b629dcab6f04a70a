//! TLS of all services that use rustls: what handshakes begin with, and the files it comes from.
//!
//! It does not move data: event loops have [`reactor::Channel`], tasks have `tokio_rustls`. The
//! edge has TLS of its own (`edge-tls`).
//!
//! Read first: [`Server`] for those who connect to us, [`Client`] for servers that we connect to.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, bail};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::private_file;

mod client;
mod server;

pub use client::{Client, Expected};
pub use server::{Files, Server};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Configuration of a client that trusts `roots`, and has a certificate and its key to show.
pub(crate) fn client_config(
    roots: RootCertStore,
    identity: Option<(&Path, &Path)>,
) -> anyhow::Result<ClientConfig> {
    let tls = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(tls.with_no_client_auth()) };
    let private = private_file::read_private_key(key)?;
    tls.with_client_auth_cert(certificates(certificate)?, private)
        .with_context(|| do_not_match(certificate, key))
}

fn do_not_match(certificate: &Path, key: &Path) -> String {
    format!("the certificate {} and the key {} do not match", certificate.display(), key.display())
}

/// The authorities in a PEM file, at least one.
pub(crate) fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).with_context(|| path.display().to_string())?;
    }
    Ok(roots)
}

/// The certificates in a PEM file, at least one.
///
/// # Errors
/// The file cannot be read, or is none of certificates.
pub fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{}: expected PEM", path.display()))?;
    if found.is_empty() {
        bail!("{}: expected BEGIN CERTIFICATE, found no certificate", path.display());
    }
    Ok(found)
}
