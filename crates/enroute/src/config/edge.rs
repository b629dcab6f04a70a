//! `[edge]`: what is written of `enroute edge`.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, de};

use super::{Bytes, Time, value};

/// TLS for several domains, their content nearby.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeDocument {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Who the edge is to key servers; needed where a site's key is at one.
    pub identity: Option<IdentityDocument>,
    /// What is kept of the sites' content.
    #[serde(default)]
    pub content: ContentDocument,
    /// What clients and origins may take.
    #[serde(default)]
    pub limits: EdgeLimitsDocument,
    /// The domains.
    #[serde(rename = "site")]
    pub sites: Vec<SiteDocument>,
}

/// Who the edge is to key servers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityDocument {
    /// The edge's own certificate; its name is what a key server's policy speaks of.
    pub certificate: PathBuf,
    /// The key of it.
    pub key: PathBuf,
    /// The authorities that may have signed a key server's certificate.
    pub authorities: PathBuf,
    /// The name in the key servers' certificates, where it is not their host.
    pub key_server_name: Option<String>,
    /// Connections to each key server.
    #[serde(default, deserialize_with = "value::at_least_one")]
    pub connections: Option<usize>,
    /// Longest wait for a key server's answer.
    pub timeout: Option<Time>,
}

/// What is kept of the sites' content.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentDocument {
    /// Memory at most: bodies, headers, keys, bookkeeping.
    pub memory: Option<Bytes>,
    /// Content beyond memory, `redis://host:port`: `enroute db`, or another that speaks RESP.
    pub database: Option<super::Address>,
}

/// What clients and origins may take.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EdgeLimitsDocument {
    /// Clients at once.
    #[serde(deserialize_with = "value::at_least_one")]
    pub connections_max: Option<usize>,
    /// Handshakes at once.
    #[serde(deserialize_with = "value::at_least_one")]
    pub handshakes_max: Option<usize>,
    /// Longest request line and headers.
    pub header_bytes_max: Option<Bytes>,
    /// Longest body of a request.
    pub request_bytes_max: Option<Bytes>,
    /// Requests at once on one HTTP/2 connection.
    #[serde(deserialize_with = "value::at_least_one")]
    pub streams_max: Option<usize>,
    /// Requests that one origin is answering at once.
    #[serde(deserialize_with = "value::at_least_one")]
    pub origin_connections_max: Option<usize>,
    /// From accepting a connection to the end of its handshake.
    pub handshake_timeout: Option<Time>,
    /// For the headers of a request, and between requests.
    pub idle_timeout: Option<Time>,
    /// For a connection to an origin.
    pub connect_timeout: Option<Time>,
    /// For an origin's answer.
    pub origin_timeout: Option<Time>,
}

/// One domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteDocument {
    /// Its name: `shop.example`, or `*.example` for all names one label below.
    pub domain: String,
    /// Its certificate and those between it and a root, PEM.
    pub certificate: PathBuf,
    /// Where its key is: `keyserver:HOST:PORT` or `file:PATH`.
    pub key: KeyPlace,
    /// Where its content comes from.
    pub origin: OriginUrl,
    /// The roots an https origin's certificate must lead to; the system's if absent.
    pub origin_authorities: Option<PathBuf>,
    /// Longest body that is stored.
    pub body_max: Option<Bytes>,
    /// Serve TLS 1.2 clients without ECDHE, which gives up forward secrecy.
    #[serde(default)]
    pub rsa_key_exchange: bool,
}

/// Where a private key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// `keyserver:HOST:PORT`: the key of the site's certificate at this key server.
    KeyServer(String),
    /// `file:PATH`: here.
    File(PathBuf),
}

impl FromStr for KeyPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` {why}; write for example keyserver:keys.example:7443 or file:shop.key"
            )
        };
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("keyserver", place)) => {
                let port = place.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
                port.ok_or_else(|| wrong("has no HOST:PORT"))?;
                Ok(Self::KeyServer(place.to_owned()))
            }
            _ => Err(wrong("is neither keyserver:HOST:PORT nor file:PATH")),
        }
    }
}

/// Where a site's content comes from: `http://host:port` or `https://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginUrl(pub String);

impl FromStr for OriginUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("`{text}` {why}; write for example http://10.0.0.7:8080 or https://www.example")
        };
        let place = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let place = place.ok_or_else(|| wrong("does not begin with http:// or https://"))?;
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.is_empty() || place.contains(['/', '?', '#', '@', ' ']) {
            return Err(wrong("is not one HOST:PORT"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// Implements reading from a string for values that parse themselves.
macro_rules! from_string {
    ($($name:ty),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                String::deserialize(source)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

from_string!(KeyPlace, OriginUrl);

impl EdgeDocument {
    /// What does not fit together: which site's which field (or `[edge]`'s own), and why.
    pub(super) fn find_mistake(&self) -> Result<(), (Option<usize>, &'static str, String)> {
        if self.sites.is_empty() {
            let message =
                "no [[edge.site]]: add one with `domain`, `certificate`, `key` and `origin`";
            return Err((None, "site", message.to_owned()));
        }
        let database = self.content.database.as_ref();
        if let Some(database) = database.filter(|place| place.scheme != super::Scheme::Redis) {
            let message = format!(
                "{database}: expected a database with the Redis protocol; write redis://HOST:PORT"
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
