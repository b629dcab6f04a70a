//! From the configuration to the settings of the edge: reads certificates and keys, opens the
//! socket.

use std::{collections::HashMap, fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use edge_tls::{CertificateChain, Connector, Key, LocalKey};
use keyservice::{Client, ClientConfiguration};
use platform::{certificate::Life, listening, private_file, tls};

use super::{Content, Database, KeyServer, Limits, Origin, Setup, SharedLatencies, Site, Sites};
use crate::config::{
    Bytes, EdgeDocument, EdgeLimitsDocument, IdentityDocument, KeyPlace, SiteDocument, Time,
};

/// Default of `[edge.content] memory`.
const MEMORY_BYTES: usize = 64 << 20;
/// Default of `body_max`.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Default of `connections` to each key server.
const KEY_SERVER_CONNECTIONS: usize = 2;
/// Default of `timeout` of a key server, for which a client waits.
const KEY_SERVER_TIMEOUT: Duration = Duration::from_secs(2);

impl EdgeDocument {
    /// Reads the files it names and opens its socket.
    ///
    /// # Errors
    /// A file is missing or has other content than expected, or the address is in use.
    pub fn setup(&self, workers: usize, drain: Option<Duration>) -> anyhow::Result<Setup> {
        let mut limits = limits(&self.limits);
        limits.drain_timeout = drain.unwrap_or(limits.drain_timeout);
        let key_latency = Arc::default();
        let sites = self.sites(&key_latency)?;
        let record_bytes_max = self.body_bytes_max() + limits.header_bytes_max;
        let bytes_max = self.content.memory.map_or(MEMORY_BYTES, Bytes::count);
        let database = self.content.database.as_ref();
        let database =
            database.map(|place| Database::new(place.host_port.clone(), record_bytes_max));
        let content = Content::new(::content::Limits { bytes_max, record_bytes_max }, database);
        let socket = listening::bind(self.listen)?;
        Ok(Setup { socket, workers, limits, content, sites, key_latency })
    }

    /// Reads the certificates and keys its sites name. The latency of key servers is counted in
    /// `key_latency`.
    ///
    /// # Errors
    /// A file is missing or has other content than expected; the error names it.
    pub fn sites(&self, key_latency: &Arc<SharedLatencies>) -> anyhow::Result<Sites> {
        let limits = limits(&self.limits);
        let mut clients = HashMap::new();
        let read = self.sites.iter().map(|written| {
            tls(written, self.identity.as_ref(), &mut clients, key_latency)
                .and_then(|tls| Ok((site(written, &limits)?, tls)))
                .with_context(|| format!("[[edge.site]] {}", written.domain))
        });
        let (served, tls) = read.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Sites { served, tls, lives: self.lives()? })
    }

    /// Reads the files of a site, and finds the field of which one is not what it should be.
    pub(crate) fn check_site(
        &self,
        site: &SiteDocument,
    ) -> Result<(), (&'static str, anyhow::Error)> {
        let (identity, limits) = (self.identity.as_ref(), limits(&self.limits));
        certificates(site).map_err(|error| ("certificate", error))?;
        tls(site, identity, &mut HashMap::new(), &Arc::default())
            .map_err(|error| ("key", error))?;
        self::site(site, &limits).map(drop).map_err(|error| ("origin", error))
    }

    /// The longest body that is stored of any site.
    fn body_bytes_max(&self) -> usize {
        self.sites.iter().map(SiteDocument::body_bytes_max).max().unwrap_or(0)
    }

    /// Returns this configuration with the sites and the identity of `later`, which may change
    /// while it serves, and the names of other fields that differ.
    pub fn with_sites_of(&self, later: Self) -> (Self, Vec<&'static str>) {
        // Room for the longest record was made at the start.
        let is_longer = later.body_bytes_max() > self.body_bytes_max();
        // Destructured, so that the compiler reports a new field that is missing here.
        let Self { listen, identity, content, limits, sites } = later;
        let parts = [
            ("[edge] listen", self.listen != listen),
            ("[edge.content]", self.content != content),
            ("[edge.limits]", self.limits != limits),
            ("a body_max that is longer than the longest before", is_longer),
        ];
        let waiting = parts.into_iter().filter_map(|(name, changed)| changed.then_some(name));
        (Self { identity, sites, ..self.clone() }, waiting.collect())
    }

    /// Validity of all certificates that it presents.
    fn lives(&self) -> anyhow::Result<Vec<Life>> {
        let sites = self.sites.iter().map(|site| (&*site.domain, &site.certificate));
        let identity = self.identity.iter().map(|own| ("[edge.identity]", &own.certificate));
        sites.chain(identity).map(|(name, path)| Life::read(name, path)).collect()
    }
}

fn limits(written: &EdgeLimitsDocument) -> Limits {
    let default = Limits::default();
    let time = |written: Option<Time>, default| written.map_or(default, Time::duration);
    let bytes = |written: Option<Bytes>, default| written.map_or(default, Bytes::count);
    Limits {
        connections_max: written.connections_max.unwrap_or(default.connections_max),
        handshakes_max: written.handshakes_max.unwrap_or(default.handshakes_max),
        header_bytes_max: bytes(written.header_bytes_max, default.header_bytes_max),
        request_bytes_max: bytes(written.request_bytes_max, default.request_bytes_max),
        streams_max: written.streams_max.map_or(default.streams_max, |count| count as u32),
        origin_connections_max: written
            .origin_connections_max
            .unwrap_or(default.origin_connections_max),
        handshake_timeout: time(written.handshake_timeout, default.handshake_timeout),
        idle_timeout: time(written.idle_timeout, default.idle_timeout),
        connect_timeout: time(written.connect_timeout, default.connect_timeout),
        origin_timeout: time(written.origin_timeout, default.origin_timeout),
        drain_timeout: default.drain_timeout,
    }
}

fn certificates(written: &SiteDocument) -> anyhow::Result<CertificateChain> {
    let chain = CertificateChain::from_pem(&read(&written.certificate)?)
        .with_context(|| written.certificate.display().to_string())?;
    tls::covers(&written.certificate, &[&written.domain])?;
    Ok(chain)
}

fn tls(
    written: &SiteDocument,
    identity: Option<&IdentityDocument>,
    clients: &mut HashMap<String, Client>,
    key_latency: &Arc<SharedLatencies>,
) -> anyhow::Result<edge_tls::Site> {
    let certificates = certificates(written)?;
    let key = match &written.key {
        KeyPlace::File(path) => {
            let pem = private_file::read_secret(path, "private key")?;
            let key = LocalKey::from_pem(&pem, &certificates);
            Key::Local(key.with_context(|| path.display().to_string())?)
        }
        KeyPlace::KeyServer(address) => {
            let Some(identity) = identity else { bail!("expected [edge.identity], found none") };
            let client = match clients.get(address) {
                Some(client) => client.clone(),
                None => client(address, identity)?,
            };
            clients.insert(address.clone(), client.clone());
            let spki = certificates.spki_sha256()?;
            Key::Remote(Arc::new(KeyServer::new(client, spki, Arc::clone(key_latency))))
        }
    };
    Ok(edge_tls::Site {
        domain: written.domain.clone(),
        certificates,
        key,
        rsa_key_exchange: written.rsa_key_exchange,
    })
}

fn site(written: &SiteDocument, limits: &Limits) -> anyhow::Result<Site> {
    let base = written.origin.0.parse().with_context(|| format!("origin {}", written.origin.0))?;
    let origin_tls = match written.origin.0.starts_with("https://") {
        true => {
            let roots = written.origin_authorities.as_deref().map(read).transpose()?;
            Some(Connector::new(roots.as_deref())?)
        }
        false => None,
    };
    Ok(Site {
        domain: written.domain.clone(),
        origin: Origin::new(base, origin_tls.as_ref(), limits)?,
        body_bytes_max: written.body_bytes_max(),
    })
}

impl SiteDocument {
    fn body_bytes_max(&self) -> usize {
        self.body_max.map_or(BODY_BYTES_MAX, Bytes::count)
    }
}

fn client(address: &str, identity: &IdentityDocument) -> anyhow::Result<Client> {
    Client::new(ClientConfiguration {
        address: address.to_owned(),
        server_name: identity.key_server_name.clone(),
        authorities: identity.authorities.clone(),
        certificate: identity.certificate.clone(),
        key: identity.key.clone(),
        connections: identity.connections.unwrap_or(KEY_SERVER_CONNECTIONS),
        patience: identity.timeout.map_or(KEY_SERVER_TIMEOUT, Time::duration),
    })
    .context("[edge.identity]")
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
