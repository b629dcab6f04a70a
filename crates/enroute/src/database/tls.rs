//! Encrypted connections: rustls, driven by the worker's event loop.

use std::{
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use anyhow::Context;
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use crate::private_file;

/// What every encrypted connection begins with.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// Every client has shown a certificate.
    knows_clients: bool,
}

impl Tls {
    /// Encryption with a certificate chain and its key, both PEM; with `authority`, clients must
    /// show a certificate it has signed.
    ///
    /// # Errors
    /// A file that cannot be read or does not hold what it should.
    pub fn new(certificate: &Path, key: &Path, authority: Option<&Path>) -> anyhow::Result<Self> {
        let chain = certificates(certificate)?;
        let secret = private_file::read_private_key(key)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(path)? {
                    roots.add(root).with_context(|| path.display().to_string())?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, secret).with_context(|| {
            format!("{} and {} do not belong together", certificate.display(), key.display())
        })?;
        Ok(Self { config: Arc::new(config), knows_clients: authority.is_some() })
    }

    /// Does it let in clients only that an authority has signed?
    pub(super) fn knows_clients(&self) -> bool {
        self.knows_clients
    }

    pub(super) fn connection(&self) -> Result<Box<ServerConnection>, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config)).map(Box::new)
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found =
        read.with_context(|| format!("cannot read certificates from {}", path.display()))?;
    anyhow::ensure!(
        !found.is_empty(),
        "{}: expected certificates in PEM, found none",
        path.display()
    );
    Ok(found)
}

/// Reads what the client said into `buffer`; what the handshake has to say goes out.
///
/// # Errors
/// `WouldBlock` when nothing came; whatever breaks the connection.
pub(super) fn read(
    tls: &mut ServerConnection,
    stream: &mut (impl Read + Write),
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        let count = tls.read_tls(stream)?;
        let processed = tls.process_new_packets();
        while tls.wants_write() {
            match tls.write_tls(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                other => other?,
            };
        }
        processed.map_err(io::Error::other)?;
        if count == 0 {
            return Ok(0);
        }
    }
}

/// Writes as much of `bytes` as the client takes now.
///
/// # Errors
/// `WouldBlock` when it takes nothing; whatever breaks the connection.
pub(super) fn write(
    tls: &mut ServerConnection,
    stream: &mut impl Write,
    bytes: &[u8],
) -> io::Result<usize> {
    loop {
        while tls.wants_write() {
            tls.write_tls(stream)?;
        }
        let count = tls.writer().write(bytes)?;
        if count > 0 || bytes.is_empty() {
            while tls.wants_write() {
                match tls.write_tls(stream) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    other => other?,
                };
            }
            return Ok(count);
        }
    }
}
