//! TLS to servers.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use parking_lot::RwLock;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{authorities, client_of};

/// Files with the authorities that the machine trusts: Debian and Alpine, Fedora, SUSE, BSD.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificate expected of a server, and the one that is presented to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Name in the certificate: a DNS name or an IP address; default: the host connected to.
    pub name: Option<String>,
    /// Authorities that may have signed it, PEM; default: those of the system.
    pub authority: Option<PathBuf>,
    /// Our own certificate and its key, PEM, for a server that asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Expected {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has other content than expected.
    pub fn read(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let identity = self.identity.as_ref();
        let identity = identity.map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        Ok(Arc::new(client_of(self.roots()?, identity)?))
    }

    fn roots(&self) -> anyhow::Result<RootCertStore> {
        if let Some(path) = &self.authority {
            return authorities(path);
        }
        let path = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let path = path.or_else(|| SYSTEM.iter().map(PathBuf::from).find(|path| path.exists()));
        let Some(path) = path else {
            bail!(
                "expected the authorities of the system in one of {}, found none; install the \
                 package ca-certificates, or name a file of authorities",
                SYSTEM.join(", ")
            )
        };
        system_authorities(&path)
    }
}

/// Like [`authorities`], without those that rustls does not accept: system files contain some in
/// old formats.
fn system_authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(super::certificates(path)?);
    if added == 0 {
        bail!("{}: expected authorities, found none that can be used", path.display());
    }
    Ok(roots)
}

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.authority {
            Some(path) => write!(out, "an authority in {}", path.display()),
            None => out.write_str("an authority of the system"),
        }
    }
}

fn server_name(host: &str) -> anyhow::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned())
        .with_context(|| format!("expected a DNS name or an IP address, found \"{host}\""))
}

/// The name of the server at `address` (`host:port`).
fn name_of(address: &str) -> anyhow::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    server_name(host.trim_start_matches('[').trim_end_matches(']'))
}

/// The TLS configuration of connections to one server. A new connection resumes the session of an
/// earlier one if the server allows it.
#[derive(Debug)]
pub struct Client {
    expected: Expected,
    name: Option<ServerName<'static>>,
    config: RwLock<Arc<ClientConfig>>,
}

impl Client {
    /// A client that accepts only `expected`.
    ///
    /// # Errors
    /// The name is none; as [`Expected::read`].
    pub fn new(expected: Expected) -> anyhow::Result<Self> {
        let name = expected.name.as_deref().map(server_name).transpose()?;
        let config = RwLock::new(expected.read()?);
        Ok(Self { expected, name, config })
    }

    /// What it accepts.
    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// Uses `config` for new connections; open connections continue.
    pub fn replace(&self, config: Arc<ClientConfig>) {
        *self.config.write() = config;
    }

    /// Encrypts a connection to the server at `address` (`host:port`), within `limit`.
    ///
    /// # Errors
    /// The handshake failed; the error states what was expected and what was found.
    pub async fn secure(
        &self,
        address: &str,
        stream: TcpStream,
        limit: Duration,
    ) -> io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::clone(&self.config.read()));
        let name = self.name.clone().map_or_else(|| name_of(address), Ok);
        let name = name.map_err(io::Error::other)?;
        let found = match timeout(limit, connector.connect(name.clone(), stream)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => describe(&error),
            Err(_) => {
                format!("no answer within {limit:?}; check that it speaks TLS on this port")
            }
        };
        let (name, signed) = (name.to_str(), &self.expected);
        let message = format!(
            "TLS handshake failed: expected a valid certificate for {name} signed by {signed}; \
             found: {found}"
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }
}

/// What the other end did, and what to do about it where that is not in the error.
fn describe(error: &io::Error) -> String {
    use rustls::{
        CertificateError::{Other, UnknownIssuer},
        Error,
    };
    let is_authority = |error: &rustls::OtherError| {
        error.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
    };
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        Some(Error::InvalidCertificate(UnknownIssuer)) => {
            "a certificate of another authority; check the file of authorities".to_owned()
        }
        Some(Error::InvalidCertificate(Other(error))) if is_authority(error) => {
            "the certificate of an authority itself; give the server one that an authority has \
             signed, or a certificate of its own made with basicConstraints=CA:FALSE (openssl req \
             -x509 sets CA:TRUE)"
                .to_owned()
        }
        Some(Error::InvalidMessage(_)) => format!(
            "{error}; the server does not speak TLS on this port: correct the port, or remove \
             TLS from the address"
        ),
        Some(Error::AlertReceived(alert)) => {
            format!("the server ended the handshake with the alert {alert:?}")
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection; check that it speaks TLS on this port".to_owned()
        }
        _ => error.to_string(),
    }
}
