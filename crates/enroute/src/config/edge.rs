//! `[edge]`: configuration of `enroute edge`.

use std::{net::SocketAddr, path::PathBuf};

use notation::{KeyPlace, OriginUrl};
use serde::Deserialize;

use super::{Bytes, Time, value};

/// An edge: TLS for several domains, and their content.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeDocument {
    /// Address that clients connect to.
    pub listen: SocketAddr,
    /// Identity of the edge at key servers; required if a site has its key on one.
    pub identity: Option<IdentityDocument>,
    /// Storage of content.
    #[serde(default)]
    pub content: ContentDocument,
    /// Limits for clients and origins.
    #[serde(default)]
    pub limits: EdgeLimitsDocument,
    /// The domains.
    #[serde(rename = "site")]
    pub sites: Vec<SiteDocument>,
}

/// Identity of the edge at key servers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityDocument {
    /// Certificate of the edge; the key server's policy refers to the name in it.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Authorities that may have signed the key server's certificate.
    pub authorities: PathBuf,
    /// Name in the key server's certificate; default: the host of `keyserver:`.
    pub key_server_name: Option<String>,
    /// Number of connections to each key server; default: 2.
    #[serde(default, deserialize_with = "value::at_least_one")]
    pub connections: Option<usize>,
    /// Timeout for a reply of the key server; default: 2 s.
    pub timeout: Option<Time>,
}

/// Storage of content.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentDocument {
    /// Memory for bodies, headers, keys and bookkeeping; default: 64 MiB.
    pub memory: Option<Bytes>,
    /// Database for content beyond memory, `redis://host:port`: `enroute db` or another with the
    /// Redis protocol; default: none.
    pub database: Option<super::Address>,
}

/// Limits for clients and origins.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EdgeLimitsDocument {
    /// Maximum number of clients; default: 16,384.
    #[serde(deserialize_with = "value::at_least_one")]
    pub connections_max: Option<usize>,
    /// Maximum number of simultaneous handshakes; default: 1,024.
    #[serde(deserialize_with = "value::at_least_one")]
    pub handshakes_max: Option<usize>,
    /// Maximum length of the request line and headers; default: 32 KiB.
    pub header_bytes_max: Option<Bytes>,
    /// Maximum length of a request body; default: 16 MiB.
    pub request_bytes_max: Option<Bytes>,
    /// Maximum number of simultaneous requests on one HTTP/2 connection; default: 128.
    #[serde(deserialize_with = "value::at_least_one")]
    pub streams_max: Option<usize>,
    /// Maximum number of simultaneous requests to one origin; default: 1,024.
    #[serde(deserialize_with = "value::at_least_one")]
    pub origin_connections_max: Option<usize>,
    /// Timeout of a handshake, from accepting the connection; default: 10 s.
    pub handshake_timeout: Option<Time>,
    /// Timeout for request headers and between requests; default: 60 s.
    pub idle_timeout: Option<Time>,
    /// Timeout for connecting to an origin; default: 5 s.
    pub connect_timeout: Option<Time>,
    /// Timeout for a response of an origin; default: 30 s.
    pub origin_timeout: Option<Time>,
}

/// One domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteDocument {
    /// Domain: `shop.example`, or `*.example` for all names one label below.
    pub domain: String,
    /// Certificate and intermediates, PEM.
    pub certificate: PathBuf,
    /// Private key: `keyserver:HOST:PORT` or `file:PATH`.
    pub key: KeyPlace,
    /// URL of the origin.
    pub origin: OriginUrl,
    /// Authorities that may have signed the certificate of an https origin; default: those of the
    /// system.
    pub origin_authorities: Option<PathBuf>,
    /// Maximum length of a stored body; default: 4 MiB.
    pub body_max: Option<Bytes>,
    /// Serve TLS 1.2 clients without ECDHE, which gives up forward secrecy.
    #[serde(default)]
    pub rsa_key_exchange: bool,
}

impl EdgeDocument {
    /// An inconsistency: the site (or `[edge]`), the field, and the reason.
    pub(super) fn find_mistake(&self) -> Result<(), (Option<usize>, &'static str, String)> {
        if self.sites.is_empty() {
            let message =
                "no [[edge.site]]: add one with `domain`, `certificate`, `key` and `origin`";
            return Err((None, "site", message.to_owned()));
        }
        let database = self.content.database.as_ref();
        let is_usable =
            |place: &super::Address| place.scheme == super::Scheme::Redis && place.tls.is_none();
        if let Some(database) = database.filter(|place| !is_usable(place)) {
            let message = format!(
                "{database}: expected a database with the Redis protocol, without TLS; write \
                 redis://HOST:PORT"
            );
            return Err((None, "content", message));
        }
        for (number, site) in self.sites.iter().enumerate() {
            let domain = &site.domain;
            let mistake = |field, message| Err((Some(number), field, message));
            let name = domain.strip_prefix("*.").unwrap_or(domain);
            let of_dns =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
            if name.is_empty() || !name.chars().all(of_dns) {
                let message = format!(
                    "`{domain}`: expected a domain in lower case, for example shop.example or *.example"
                );
                return mistake("domain", message);
            }
            if self.sites[..number].iter().any(|other| other.domain == *domain) {
                return mistake(
                    "domain",
                    format!("{domain} is configured twice; remove one [[edge.site]]"),
                );
            }
            if matches!(site.key, KeyPlace::KeyServer(_)) && self.identity.is_none() {
                let message = "the key server needs the identity of the edge: add [edge.identity] with \
                               certificate, key and authorities";
                return mistake("key", message.to_owned());
            }
        }
        Ok(())
    }
}
