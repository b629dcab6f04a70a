//! TLS of all services that use rustls: what handshakes begin with, and the files it comes from.
//!
//! It does not move data: event loops have [`reactor::Channel`], tasks have `tokio_rustls`. The
//! edge has TLS of its own (`edge-tls`).
//!
//! Read first: [`Server`] for connections of clients, [`Client`] for connections to servers.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{
        CryptoProvider,
        aws_lc_rs::{self, Ticketer},
    },
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use webpki::EndEntityCert;

use crate::private_file;

mod client;
pub mod hello;
mod server;

pub use client::{Client, Expected};
pub use server::{Files, Server};

/// Timeout of a client's handshake, from accepting it.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Clients of one listener whose handshakes are not complete; further ones wait to be accepted.
pub const HANDSHAKES_MAX: usize = 1_024;
/// Time that a thread spends on handshakes in one round of its loop.
pub const HANDSHAKES_ROUND_MAX: Duration = Duration::from_millis(1);
/// Memory of an encrypted connection, at most; `docs/guide/configuration.md` states it.
pub const SESSION_BYTES: usize = 16 << 10;

/// The name of HTTP/2 in handshakes (ALPN).
const HTTP2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// TLS of a client, from files, PEM: the authorities for the peer's certificate, and optionally its
/// own certificate and key.
///
/// # Errors
/// A file cannot be read, or has other content than expected.
pub fn client(roots: &Path, identity: Option<(&Path, &Path)>) -> anyhow::Result<ClientConfig> {
    client_of(authorities(roots)?, identity)
}

fn client_of(
    roots: RootCertStore,
    identity: Option<(&Path, &Path)>,
) -> anyhow::Result<ClientConfig> {
    let tls = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(tls.with_no_client_auth()) };
    let private = private_file::read_private_key(key)?;
    tls.with_client_auth_cert(certificates(certificate)?, private)
        .with_context(|| mismatch(certificate, key))
}

/// TLS of a server, from files, PEM. With `roots`, clients must show a certificate that one of
/// these authorities has signed, and no session is resumed: a resumed session does not present its
/// certificate again, which may have expired, and its authority may have been removed.
///
/// # Errors
/// A file cannot be read, or has other content than expected.
pub fn server(
    certificate: &Path,
    key: &Path,
    roots: Option<&Path>,
) -> anyhow::Result<ServerConfig> {
    let chain = certificates(certificate)?;
    let private = private_file::read_private_key(key)?;
    let tls =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let tls = match roots {
        None => tls.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
            tls.with_client_cert_verifier(verifier)
        }
    };
    let mut tls =
        tls.with_single_cert(chain, private).with_context(|| mismatch(certificate, key))?;
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    match roots {
        // Keys are replaced every 6 h; a ticket is valid for up to 12 h.
        None => tls.ticketer = Ticketer::new().context("cannot make keys for session tickets")?,
        Some(_) => tls.send_tls13_tickets = 0,
    }
    Ok(tls)
}

/// Checks that the first certificate in a PEM file is valid for all `names`. A name `*.example`
/// requires a certificate for all names one label below.
///
/// # Errors
/// The first name that it is not valid for; as [`certificates`].
pub fn covers(certificate: &Path, names: &[impl AsRef<str>]) -> anyhow::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let chain = certificates(certificate)?;
    let place = || certificate.display().to_string();
    let first = EndEntityCert::try_from(&chain[0]).map_err(|why| anyhow!("{why:?}"));
    let first = first.with_context(place)?;
    for name in names.iter().map(AsRef::as_ref) {
        let is_valid = if name.starts_with("*.") {
            first.valid_dns_names().any(|valid| valid.eq_ignore_ascii_case(name))
        } else {
            let server = ServerName::try_from(name).with_context(place)?;
            first.verify_is_valid_for_subject_name(&server).is_ok()
        };
        if !is_valid {
            bail!(
                "{}: expected a certificate that is valid for {name}, found: {}",
                place(),
                first.valid_dns_names().collect::<Vec<_>>().join(", ")
            );
        }
    }
    Ok(())
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
