//! Parsing of single values; each error states what was expected.

use std::{fmt, str::FromStr, time::Duration};

use cache::filter::{mongo, resp};
use notation::{parse_duration, parse_size};
use serde::{Deserialize, Deserializer, de};

use super::AddressTls;

/// Protocol and place: `mongodb://host:port`, `redis://host:port`; with TLS
/// `mongodb://host:port/?tls=true`, `rediss://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Protocol.
    pub scheme: Scheme,
    /// `host:port`, or [`Address::ORIGINAL`].
    pub host_port: String,
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

/// A protocol, as the start of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `mongodb://`
    Mongodb,
    /// `redis://`, also written `valkey://`; with TLS `rediss://` or `valkeys://`
    Redis,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mongodb => "mongodb",
            Self::Redis => "redis",
        }
    }

    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Mongodb => 27017,
            Self::Redis => 6379,
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
        let (scheme, place) = text
            .split_once("://")
            .ok_or_else(|| wrong("has no protocol, expected mongodb:// or redis://"))?;
        let (place, options) = match place.split_once('?') {
            Some((place, options)) if scheme == "mongodb" => (place, options),
            _ => (place, ""),
        };
        let tls = match scheme {
            "rediss" | "valkeys" => Some(AddressTls::default()),
            _ => AddressTls::parse(options).map_err(|why| wrong(&why))?,
        };
        let scheme = match scheme {
            "mongodb" => Scheme::Mongodb,
            "redis" | "valkey" | "rediss" | "valkeys" => Scheme::Redis,
            _ => return Err(wrong("has an unknown protocol, expected mongodb:// or redis://")),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.is_empty() || place.contains(['/', '?', ',']) {
            return Err(wrong("is not one HOST:PORT"));
        }
        if place.contains('@') {
            return Err(wrong(
                "contains a password; clients log in with their own, the cache needs none",
            ));
        }
        let has_port = place.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.ends_with(':') && port.parse::<u16>().is_ok()
        });
        let host_port = match has_port {
            true => place.to_owned(),
            false if place == Self::ORIGINAL => place.to_owned(),
            false if place.contains(':') && !place.ends_with(']') => {
                return Err(wrong("has no valid port"));
            }
            false => format!("{place}:{}", scheme.port()),
        };
        Ok(Self { scheme, host_port, tls })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scheme, &self.tls) {
            (Scheme::Redis, Some(_)) => write!(out, "rediss://{}", self.host_port),
            (Scheme::Mongodb, Some(_)) => write!(out, "mongodb://{}/?tls=true", self.host_port),
            (scheme, None) => write!(out, "{}://{}", scheme.name(), self.host_port),
        }
    }
}

/// A number of bytes: `512KiB`, `64MiB`, `1.5GiB`, `1048576`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(usize);

impl Bytes {
    /// Number of bytes.
    #[must_use]
    pub fn count(self) -> usize {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_size(text).map(Self)
    }
}

/// A duration with its unit: `250us`, `1.5ms`, `2s`, `5min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(Duration);

impl Time {
    /// The duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

/// A unique field: `database.collection.field`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueField(pub(super) mongo::UniqueField);

impl FromStr for UniqueField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('.').filter(|(namespace, field)| {
            namespace.split_once('.').is_some_and(|(database, collection)| {
                !database.is_empty() && !collection.is_empty() && !field.is_empty()
            })
        });
        let (namespace, field) = parts.ok_or_else(|| {
            format!("`{text}`: expected database.collection.field, for example shop.users.email")
        })?;
        Ok(Self(mongo::UniqueField { namespace: namespace.to_owned(), field: field.to_owned() }))
    }
}

/// Implements reading from a string for values that parse themselves.
macro_rules! from_string {
    ($($name:ty),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let text = String::deserialize(source)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

from_string!(Address, Time, UniqueField);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a size, for example \"64MiB\"")]
        enum Written {
            Number(usize),
            Text(String),
        }
        match Written::deserialize(source)? {
            Written::Number(count) => count.to_string().parse().map_err(de::Error::custom),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// Reads a count of at least 1.
pub(super) fn at_least_one<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<usize>, D::Error> {
    match usize::deserialize(source)? {
        0 => Err(de::Error::custom("expected at least 1, got 0")),
        count => Ok(Some(count)),
    }
}

/// Reads a time of more than 0.
pub(super) fn above_zero<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Time>, D::Error> {
    match Time::deserialize(source)? {
        Time(Duration::ZERO) => Err(de::Error::custom(
            "expected more than 0, got 0: nothing would be answered from storage; set at least a few round-trip \
             times to the origin",
        )),
        time => Ok(Some(time)),
    }
}

/// Replacement policy: selects the item to evict when storage is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// First in, first out
    Fifo,
    /// Least recently used
    Lru,
    /// First in, first out, with a second chance for items that were read
    Clock,
    /// Like clock, but new items are judged earlier
    Sieve,
    /// Three queues: new items must be read in a small one before they enter the main one
    #[value(name = "s3-fifo")]
    #[serde(rename = "s3-fifo")]
    S3Fifo,
    /// Admits an item only if it is read more often than the item it would evict
    #[value(name = "w-tinylfu")]
    #[serde(rename = "w-tinylfu")]
    WTinyLfu,
}

impl From<Replacement> for store::Replacement {
    fn from(written: Replacement) -> Self {
        match written {
            Replacement::Fifo => Self::Fifo,
            Replacement::Lru => Self::Lru,
            Replacement::Clock => Self::Clock,
            Replacement::Sieve => Self::Sieve,
            Replacement::S3Fifo => Self::S3Fifo,
            Replacement::WTinyLfu => Self::WTinyLfu,
        }
    }
}

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Population {
    /// Store every read that missed
    #[default]
    OnMiss,
    /// Also store writes that state the whole value
    OnWrite,
    /// Store only keys that are read often; hot_threshold and hot_period in --config set how often
    Hot,
}

/// What a script is assumed to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scripts {
    /// Any key: every script invalidates everything of its origin
    #[default]
    Everything,
    /// Only the keys that it declares, as Redis Cluster requires
    DeclaredKeys,
}

impl From<Scripts> for resp::Scripts {
    fn from(written: Scripts) -> Self {
        match written {
            Scripts::Everything => Self::Everything,
            Scripts::DeclaredKeys => Self::DeclaredKeys,
        }
    }
}
