//! Address and identity of the database.

use std::{fmt, path::Path, sync::Arc};

use anyhow::{Context, bail};
use notation::DatabaseUrl;
use platform::tls;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

/// An address, and the authorities for its certificate.
#[derive(Clone)]
pub struct Place {
    address: DatabaseUrl,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.address, formatter)
    }
}

impl Place {
    /// The database at `address`. If that says TLS, the server's certificate must be for that host
    /// and signed by one of the authorities in the PEM file `roots`. `identity` is the client
    /// certificate and key, for a database that asks for one.
    pub fn new(
        address: DatabaseUrl,
        roots: Option<&Path>,
        identity: Option<(&Path, &Path)>,
    ) -> anyhow::Result<Self> {
        let tls = match (address.is_encrypted(), roots) {
            (true, Some(roots)) => tls::client(roots, identity)?,
            (true, None) => bail!(
                "{address}: expected --database-authorities FILE, with the authorities that may have signed \
                 the certificate of the database"
            ),
            (false, None) => return Ok(Self { address, tls: None }),
            // Authorities without TLS would silently not be checked.
            (false, Some(_)) => {
                bail!("{address}: expected rediss:// with --database-authorities, got redis://")
            }
        };
        let (name, _) = address.host().rsplit_once(':').context("expected HOST:PORT")?;
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server_name = ServerName::try_from(name.clone())
            .with_context(|| format!("{name}: expected a DNS name or an IP address"))?;
        Ok(Self { address, tls: Some((TlsConnector::from(Arc::new(tls)), server_name)) })
    }

    /// Address of the database.
    pub(super) fn address(&self) -> &DatabaseUrl {
        &self.address
    }

    /// TLS connector, and the name in the server's certificate; `None` without TLS.
    pub(super) fn tls(&self) -> Option<(TlsConnector, ServerName<'static>)> {
        self.tls.clone()
    }
}
