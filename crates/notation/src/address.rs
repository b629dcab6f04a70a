//! Places as people write them: databases, key servers, web servers.

use std::{fmt, path::PathBuf, str::FromStr};

use zeroize::Zeroizing;

mod deployment;
mod sentinels;
mod servers;
mod tls;

pub use deployment::Deployment;
pub use sentinels::Sentinels;
pub use servers::{KeyHash, Server, Servers};
pub use tls::AddressTls;

use deployment::Options;

/// Protocol and place: `mongodb://host:port`, `redis://host:port`, `memcached://host:port`,
/// `dynamodb://host:port`; with TLS `mongodb://host:port/?tls=true`, `rediss://host:port`,
/// `dynamodbs://host`. A primary that Sentinels name: `redis+sentinel://host,host/name`, with TLS
/// `rediss+sentinel://`. A replica set or a sharded cluster:
/// `mongodb://host,host/?replicaSet=name`, `mongodb://mongos,mongos`, or by its records in DNS,
/// with TLS unless it says `tls=false`: `mongodb+srv://domain`. Several memcached servers that
/// share the keys: `memcached://host,host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Protocol.
    pub scheme: Scheme,
    /// `host:port`, [`Address::ORIGINAL`], or `host:port,host:port/name` of servers that are found.
    pub host_port: String,
    /// How its server is found, where the address does not state it.
    pub found_by: Option<FoundBy>,
    /// The connections are encrypted.
    pub tls: Option<AddressTls>,
}

impl Address {
    /// Origin that is the original destination of each client diverted by `enroute intercept`.
    pub const ORIGINAL: &str = "original";

    /// Whether it is [`Address::ORIGINAL`].
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.host_port == Self::ORIGINAL
    }
}

/// How the server of an address is found, or that of each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// Sentinels name it.
    Sentinels(Sentinels),
    /// Members of a MongoDB deployment say what they are.
    Deployment(Deployment),
    /// Each server has a part of the keys.
    Servers(Servers),
}

/// A protocol, as the start of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `mongodb://`
    Mongodb,
    /// `redis://`, also written `valkey://`; with TLS `rediss://` or `valkeys://`
    Redis,
    /// `memcached://`
    Memcached,
    /// `dynamodb://`; with TLS `dynamodbs://`
    Dynamodb,
}

impl Scheme {
    /// Its name in an address.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mongodb => "mongodb",
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Dynamodb => "dynamodb",
        }
    }

    /// The port of its servers, unless an address says another.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Self::Mongodb => 27017,
            Self::Redis => 6379,
            Self::Memcached => 11211,
            // DynamoDB Local's; with TLS it is that of HTTPS.
            Self::Dynamodb => 8000,
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` {why}; write for example mongodb://127.0.0.1:27018 or redis://db.example:6379"
            )
        };
        let (scheme, place) = text.split_once("://").ok_or_else(|| {
            wrong("has no protocol, expected mongodb://, redis://, memcached:// or dynamodb://")
        })?;
        let (place, options) = match place.split_once('?') {
            Some(found) if scheme.starts_with("mongodb") || scheme == "memcached" => found,
            _ => (place, ""),
        };
        let (scheme, by_sentinels) = match scheme.strip_suffix("+sentinel") {
            Some(scheme) if matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") => {
                (scheme, true)
            }
            _ => (scheme, false),
        };
        let by_records = scheme == "mongodb+srv";
        let (options, hash) = if scheme == "memcached" { ("", options) } else { (options, "") };
        let options = Options::parse(options, by_records).map_err(|why| wrong(&why))?;
        let tls = match scheme {
            "rediss" | "valkeys" | "dynamodbs" => Some(AddressTls::default()),
            _ => options.tls.clone(),
        };
        let scheme = match scheme {
            "mongodb" | "mongodb+srv" => Scheme::Mongodb,
            "redis" | "valkey" | "rediss" | "valkeys" => Scheme::Redis,
            "memcached" => Scheme::Memcached,
            "dynamodb" | "dynamodbs" => Scheme::Dynamodb,
            _ => {
                return Err(wrong(
                    "has an unknown protocol, expected mongodb://, redis://, memcached:// or \
                     dynamodb://",
                ));
            }
        };
        if place.contains('@') {
            return Err(wrong(
                "contains a password; clients log in with their own, the cache needs none",
            ));
        }
        if by_sentinels {
            let sentinels = Sentinels::parse(place).map_err(|why| wrong(&why))?;
            let host_port = format!("{}/{}", sentinels.hosts.join(","), sentinels.name);
            let found_by = Some(FoundBy::Sentinels(sentinels));
            return Ok(Self { scheme, host_port, found_by, tls });
        }
        let place = place.strip_suffix('/').unwrap_or(place);
        if scheme == Scheme::Memcached && (place.contains(',') || !hash.is_empty()) {
            let servers = Servers::parse(place, hash).map_err(|why| wrong(&why))?;
            let (host_port, found_by) = (servers.to_string(), Some(FoundBy::Servers(servers)));
            return Ok(Self { scheme, host_port, found_by, tls });
        }
        let deployment = match scheme {
            _ if by_records => options.by_records(place).map(Some),
            Scheme::Mongodb => options.deployment(place),
            _ => Ok(None),
        };
        if let Some(deployment) = deployment.map_err(|why| wrong(&why))? {
            let host_port = deployment.name();
            let found_by = Some(FoundBy::Deployment(deployment));
            return Ok(Self { scheme, host_port, found_by, tls });
        }
        let port = match scheme {
            Scheme::Dynamodb if tls.is_some() => HTTPS_PORT,
            scheme => scheme.port(),
        };
        let host_port = match place {
            Self::ORIGINAL => place.to_owned(),
            _ => with_port(place, port).map_err(|why| wrong(&why))?,
        };
        Ok(Self { scheme, host_port, found_by: None, tls })
    }
}

/// The port of DynamoDB's endpoints.
const HTTPS_PORT: u16 = 443;

/// `HOST:PORT` of a place that may have no port.
fn with_port(place: &str, port: u16) -> Result<String, String> {
    if place.is_empty() || place.contains(['/', '?', ',']) {
        return Err("is not one HOST:PORT".to_owned());
    }
    let has_port = place.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.ends_with(':') && port.parse::<u16>().is_ok()
    });
    match has_port {
        true => Ok(place.to_owned()),
        false if place.contains(':') && !place.ends_with(']') => {
            Err("has no valid port".to_owned())
        }
        false => Ok(format!("{place}:{port}")),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.scheme, &self.tls) {
            (Scheme::Redis, Some(_)) => "rediss",
            (Scheme::Dynamodb, Some(_)) => "dynamodbs",
            (scheme, _) => scheme.name(),
        };
        match &self.found_by {
            Some(FoundBy::Sentinels(_)) => write!(out, "{scheme}+sentinel://{}", self.host_port),
            Some(FoundBy::Deployment(members)) => members.show(self.tls.is_some(), out),
            None if self.scheme == Scheme::Mongodb && self.tls.is_some() => {
                write!(out, "{scheme}://{}/?tls=true", self.host_port)
            }
            Some(FoundBy::Servers(_)) | None => write!(out, "{scheme}://{}", self.host_port),
        }
    }
}

/// Place of a private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// `keyserver:HOST:PORT`: the key of the site's certificate at this key server.
    KeyServer(String),
    /// `file:PATH`: a local file.
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
        // A colon within brackets is part of an IPv6 address.
        let (name, port) = match place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((name, port)) => (name, Some(port)),
            None => (place, None),
        };
        if name.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err(wrong("has no valid host and port"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

read_from_text!(Address, KeyPlace, OriginUrl);

const PLAIN: &str = "redis://";
const TLS: &str = "rediss://";

/// A database, with a login: `redis://[[USER:]PASSWORD@]HOST:PORT`, or `rediss://…` with TLS.
#[derive(Clone)]
pub struct DatabaseUrl {
    scheme: &'static str,
    /// With the port.
    host: String,
    login: Option<(String, Zeroizing<String>)>,
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Without the password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.scheme, self.host)
    }
}

impl FromStr for DatabaseUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let form = "expected redis://[[USER:]PASSWORD@]HOST:PORT, or rediss:// for TLS";
        let with = |scheme| text.strip_prefix(scheme).map(|rest| (scheme, rest));
        let (scheme, rest) = with(PLAIN).or_else(|| with(TLS)).ok_or(form)?;
        let (login, host) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, host)) => {
                let (user, password) = login.split_once(':').unwrap_or(("default", login));
                let user = if user.is_empty() { "default" } else { user };
                (Some((user.to_owned(), Zeroizing::new(password.to_owned()))), host)
            }
        };
        let host = host.trim_end_matches('/');
        let (name, port) = host.rsplit_once(':').ok_or(form)?;
        if name.is_empty() || port.parse::<u16>().is_err() {
            return Err(form);
        }
        Ok(Self { scheme, host: host.to_owned(), login })
    }
}

impl DatabaseUrl {
    /// Whether connections are to use TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.scheme == TLS
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// User and password.
    #[must_use]
    pub fn login(&self) -> Option<(&str, &str)> {
        self.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_port_of_its_protocol_unless_it_says_another() {
        let shown = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(shown("mongodb://db.example/"), Ok("mongodb://db.example:27017".to_owned()));
        assert_eq!(shown("valkey://[::1]:7000"), Ok("redis://[::1]:7000".to_owned()));
        assert_eq!(shown("redis://original"), Ok("redis://original".to_owned()));
        for (text, why) in [
            ("db.example:6379", "no protocol"),
            ("http://db.example", "an unknown protocol"),
            ("redis://a:1,b:2", "not one HOST:PORT"),
            ("redis://user:secret@db", "contains a password"),
            ("redis://db:port", "no valid port"),
            ("redis+sentinel://a,b", "no name of a primary"),
            ("redis+sentinel://a,a:26379/main", "twice"),
            ("redis+sentinel://a,,b/main", "not one HOST:PORT"),
            ("mongodb+sentinel://a/main", "an unknown protocol"),
        ] {
            let error = shown(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_primary_is_named_by_sentinels() {
        let address: Address = "redis+sentinel://a,[::1]:7/main-1".parse().expect("an address");
        assert_eq!(address.to_string(), "redis+sentinel://a:26379,[::1]:7/main-1");
        let Some(FoundBy::Sentinels(sentinels)) = address.found_by else { panic!("Sentinels") };
        assert_eq!(sentinels.hosts, ["a:26379", "[::1]:7"]);
        assert_eq!((sentinels.name.as_str(), address.tls), ("main-1", None));
        let address: Address = "valkeys+sentinel://a/main".parse().expect("an address");
        assert_eq!(address.to_string(), "rediss+sentinel://a:26379/main");
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        let url: DatabaseUrl = "rediss://keys:se@cret@db.example:6379".parse().expect("an address");
        assert_eq!(url.login(), Some(("keys", "se@cret")));
        assert_eq!(format!("{url} {url:?}"), "rediss://db.example:6379 rediss://db.example:6379");
        assert!(url.is_encrypted());
        let url: DatabaseUrl = "redis://secret@127.0.0.1:6379/".parse().expect("an address");
        assert_eq!((url.login(), url.host()), (Some(("default", "secret")), "127.0.0.1:6379"));
        assert!("redis://127.0.0.1".parse::<DatabaseUrl>().is_err());
    }

    #[test]
    fn keys_and_origins_say_what_they_are() {
        let key = |text: &str| text.parse::<KeyPlace>();
        assert_eq!(key("file:shop.key"), Ok(KeyPlace::File("shop.key".into())));
        assert_eq!(key("keyserver:keys:7443"), Ok(KeyPlace::KeyServer("keys:7443".to_owned())));
        assert!(key("keyserver:keys").is_err() && key("shop.key").is_err());
        let origin = |text: &str| text.parse::<OriginUrl>();
        for wrong in ["http://10.0.0.7:99999", "http://:80", "http://shop:", "http://[::1]:x"] {
            assert!(origin(wrong).is_err_and(|error| error.contains("host and port")), "{wrong}");
        }
        for right in ["http://shop", "https://[::1]", "https://[::1]:443"] {
            assert_eq!(origin(right), Ok(OriginUrl(right.into())));
        }
        assert_eq!(origin("http://10.0.0.7:8080/"), Ok(OriginUrl("http://10.0.0.7:8080".into())));
        assert!(origin("https://www.example/path").is_err() && origin("www.example").is_err());
    }
}
