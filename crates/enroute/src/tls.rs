//! TLS of servers and clients, from files.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, bail};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use crate::private_file;

/// TLS files of a client: the authorities for the peer's certificate, and optionally its own
/// certificate and key. All are files, PEM.
///
/// # Errors
/// A file cannot be read, or is not what it should be.
pub(crate) fn client(
    roots: &Path,
    identity: Option<(&Path, &Path)>,
) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities(roots)?);
    let Some((certificate, key)) = identity else { return Ok(tls.with_no_client_auth()) };
    let private = private_file::read_private_key(key)?;
    tls.with_client_auth_cert(certificates(certificate)?, private)
        .with_context(|| mismatch(certificate, key))
}

/// Certificate and key of a server. With `roots`, clients must show a certificate that one of these
/// authorities has signed. All are files, PEM.
///
/// # Errors
/// A file cannot be read, or is not what it should be.
pub(crate) fn server(
    certificate: &Path,
    key: &Path,
    roots: Option<&Path>,
) -> anyhow::Result<ServerConfig> {
    let chain = certificates(certificate)?;
    let private = private_file::read_private_key(key)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let tls = match roots {
        None => tls.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
            tls.with_client_cert_verifier(verifier)
        }
    };
    tls.with_single_cert(chain, private).with_context(|| mismatch(certificate, key))
}

fn mismatch(certificate: &Path, key: &Path) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    format!("the certificate {certificate} and the key {key} do not match")
}

/// The authorities in a PEM file, at least one.
fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
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
pub(crate) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{}: expected PEM", path.display()))?;
    if found.is_empty() {
        bail!("{}: expected BEGIN CERTIFICATE, found no certificate", path.display());
    }
    Ok(found)
}
