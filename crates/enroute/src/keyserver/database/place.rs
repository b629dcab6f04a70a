//! Address and identity of the database.

use std::{fmt, path::Path, str::FromStr, sync::Arc};

use anyhow::{Context, bail, ensure};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::tls::{authorities, client_config};

const PLAIN: &str = "redis://";
const TLS: &str = "rediss://";

/// Where the database is: `redis://[[USER:]PASSWORD@]HOST:PORT`, or `rediss://…` with TLS.
#[derive(Clone)]
pub struct Address {
    scheme: &'static str,
    /// With the port.
    host: String,
    login: Option<(String, Zeroizing<String>)>,
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.scheme, self.host)
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let form = "expected redis://[[USER:]PASSWORD@]HOST:PORT, or rediss:// for TLS";
        let with = |scheme| text.strip_prefix(scheme).map(|rest| (scheme, rest));
        let (scheme, rest) = with(PLAIN).or_else(|| with(TLS)).context(form)?;
        let (login, host) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, host)) => {
                let (user, password) = login.split_once(':').unwrap_or(("default", login));
                let user = if user.is_empty() { "default" } else { user };
                (Some((user.to_owned(), Zeroizing::new(password.to_owned()))), host)
            }
        };
        let host = host.trim_end_matches('/');
        let (name, port) = host.rsplit_once(':').context(form)?;
        ensure!(!name.is_empty() && port.parse::<u16>().is_ok(), form);
        Ok(Self { scheme, host: host.to_owned(), login })
    }
}

impl Address {
    /// Host and port.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// User and password.
    pub(super) fn login(&self) -> Option<(&str, &str)> {
        self.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()))
    }
}

/// An address, and the authorities for its certificate.
#[derive(Clone)]
pub struct Place {
    address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.address, formatter)
    }
}

impl Place {
    /// The database at `address`; with TLS if that says so, and then its certificate must be for
    /// that host and signed by one of the authorities in the file `roots`, PEM. `identity` is the
    /// certificate and key shown to a database which asks for one.
    pub fn new(
        address: Address,
        roots: Option<&Path>,
        identity: Option<(&Path, &Path)>,
    ) -> anyhow::Result<Self> {
        let tls = match (address.scheme, roots) {
            (TLS, Some(roots)) => client_config(authorities(roots)?, identity)?,
            (TLS, None) => bail!(
                "{address}: expected --database-authorities FILE, with the authorities that may have signed \
                 the certificate of the database"
            ),
            (_, None) => return Ok(Self { address, tls: None }),
            // Authorities without TLS would silently not be checked.
            (_, Some(_)) => {
                bail!("{address}: expected {TLS} with --database-authorities, got {PLAIN}")
            }
        };
        let (name, _) = address.host.rsplit_once(':').context("expected HOST:PORT")?;
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server_name = ServerName::try_from(name.clone())
            .with_context(|| format!("{name}: expected a DNS name or an IP address"))?;
        Ok(Self { address, tls: Some((TlsConnector::from(Arc::new(tls)), server_name)) })
    }

    /// Where it is.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// What makes the connection safe, and the name in the certificate; nothing without TLS.
    pub(super) fn tls(&self) -> Option<(TlsConnector, ServerName<'static>)> {
        self.tls.clone()
    }
}
