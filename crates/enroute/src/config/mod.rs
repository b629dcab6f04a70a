//! Configuration: the file, and its conversion to the settings of the runtime.
//!
//! [`Document`] is the file as written. Each value is checked while it is read, so a mistake is
//! reported with its line. [`Document::setup`] converts it to the settings of the runtime. The
//! command line fills the same document, so both have the same options.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use notation::place;
use serde::Deserialize;

mod changes;
mod cluster;
mod edge;
pub(crate) mod machine;
mod mistake;
mod portions;
mod setup;
mod tls;
mod value;

pub use edge::{ContentDocument, EdgeDocument, EdgeLimitsDocument, IdentityDocument, SiteDocument};
use mistake::Mistake;

use crate::runtime::Lender;
pub use notation::{Address, AddressTls, Bytes, KeyPlace, OriginUrl, Scheme, Share, Time};
pub use tls::{OriginTlsDocument, TlsDocument};
pub use value::{Population, Replacement, Scripts, UniqueField, UnknownExpiry};

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Number of worker threads; default: one per core.
    #[serde(deserialize_with = "value::threads")]
    pub workers: Option<usize>,
    /// Time for which busy connections are served after SIGTERM; default: 10 s.
    pub drain_timeout: Option<Time>,
    /// What is stored, and for how long.
    pub storage: StorageDocument,
    /// Limits for one client.
    pub limits: LimitsDocument,
    /// Metrics and statistics over HTTP.
    pub admin: Option<AdminDocument>,
    /// Where clients connect.
    #[serde(rename = "listener")]
    pub listeners: Vec<ListenerDocument>,
    /// TLS for several domains, for `enroute edge`.
    pub edge: Option<EdgeDocument>,
}

/// What is stored, and for how long.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageDocument {
    /// Maximum number of items; default: limited by memory alone.
    #[serde(deserialize_with = "value::at_least_one")]
    pub capacity: Option<usize>,
    /// Memory for items: keys, values, bookkeeping; default: 64 MiB.
    pub memory: Option<Bytes>,
    /// Largest reply that is stored; default: 1 MiB.
    pub value_max: Option<Bytes>,
    /// Longest time for which an entry is served; default: 5 min.
    pub ttl: Option<Time>,
    /// Validity of the rights that the origin reported for a connection; default: 10 s.
    #[serde(deserialize_with = "value::above_zero")]
    pub authorization_lease: Option<Time>,
    /// Replacement policy; default: sieve.
    pub replacement: Option<Replacement>,
    /// What is stored; default: every read that missed.
    pub population: Option<Population>,
    /// `population = "hot"`: number of reads within `hot_period` that make a key hot; default: 3.
    pub hot_threshold: Option<u16>,
    /// `population = "hot"`: the period over which reads are counted; default: 10 s.
    pub hot_period: Option<Time>,
    /// Time for which a key stays uncached after the reply to a write was lost; default: 30 s.
    pub quarantine: Option<Time>,
    /// Share of the hits that are asked at the origin too, and compared; default: none.
    pub verify: Option<Share>,
    /// Forward everything, store nothing, and forecast what caching would answer.
    pub observe: bool,
}

/// Limits for one client.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsDocument {
    /// Maximum number of clients of one listener; default: 16,384.
    #[serde(deserialize_with = "value::at_least_one")]
    pub connections_max: Option<usize>,
    /// Maximum number of unanswered requests of one client; default: 4,096.
    #[serde(deserialize_with = "value::at_least_one")]
    pub pipeline_max: Option<usize>,
    /// Maximum number of bytes that wait to be written to one side of a connection; default: 1 MiB.
    pub buffered_bytes_max: Option<Bytes>,
    /// Largest request or reply; default: 48 MB for MongoDB, 513 MiB for Redis;
    /// largest value for memcached, default: 1 GiB.
    pub frame_bytes_max: Option<Bytes>,
    /// Maximum wait for the fill of another client; default: 2 s.
    pub coalesce_wait_max: Option<Time>,
    /// Timeout for connecting to the origin; default: 5 s.
    pub connect_timeout: Option<Time>,
}

/// Metrics and statistics over HTTP.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminDocument {
    /// Address of the admin endpoint.
    pub listen: SocketAddr,
    /// More names accepted in the Host header, besides IP addresses, `localhost` and the machine's
    /// name.
    #[serde(default)]
    pub names: Vec<String>,
}

/// An address that clients connect to, and its origin.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerDocument {
    /// Address that clients connect to, for example `mongodb://127.0.0.1:27018`.
    pub listen: Address,
    /// Address of the database, for example `mongodb://db.example:27017`, or of Sentinels and the
    /// primary that they name: `redis+sentinel://HOST,HOST/NAME`, or of members of a replica set:
    /// `mongodb://HOST,HOST/?replicaSet=NAME`, or of several mongos, or of several memcacheds that
    /// share the keys: `memcached://HOST,HOST`. With `mongodb://original` it is the original
    /// destination of each diverted client (see `enroute intercept`).
    pub origin: Address,
    /// Store only what matches one of these: `database.collection` patterns for MongoDB, key
    /// patterns for Redis and memcached, table patterns for DynamoDB.
    #[serde(default)]
    pub include: Vec<String>,
    /// Never store what matches one of these.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Longest time for which entries of what matches a pattern are served, in place of that of
    /// `[storage]`; the shortest if several match.
    #[serde(default)]
    pub ttl: BTreeMap<String, Time>,
    /// Memory that its origin always has, used or not; default: a quarter of an equal share.
    pub memory_min: Option<Bytes>,
    /// Memory that its origin never exceeds; default: all of `[storage] memory`.
    pub memory_max: Option<Bytes>,
    /// MongoDB: unique fields other than `_id`, each as `database.collection.field`.
    #[serde(default)]
    pub unique_fields: Vec<UniqueField>,
    /// Address that clients get in place of those of replica set members or cluster nodes; default:
    /// `listen`.
    pub advertise: Option<String>,
    /// Redis: name of the cluster that the origin is a node of. Keys move between its nodes, so all
    /// listeners with the same name share their entries.
    pub cluster: Option<String>,
    /// Clients were diverted to the listener (see `enroute intercept`): the addresses of members
    /// and nodes are not rewritten. Implied by the origin `original`.
    #[serde(default)]
    pub transparent: bool,
    /// Redis: what a script is assumed to write; default: everything.
    #[serde(default)]
    pub scripts: Scripts,
    /// Redis: handling of replies to users without the right to run PTTL; default: they are not
    /// stored.
    #[serde(default)]
    pub unknown_expiry: UnknownExpiry,
    /// The origin reports writes that bypass the cache (Redis: `CLIENT TRACKING`, MongoDB: a change
    /// stream, DynamoDB: the streams of its tables); while it does not, nothing is cached. Default:
    /// no feed.
    pub feed: Option<FeedDocument>,
    /// Redis: login at the Sentinels of an origin `redis+sentinel://…`; default: none is needed.
    pub sentinel: Option<FeedDocument>,
    /// DynamoDB: file of the access keys whose requests may be answered from storage, in the form
    /// of `~/.aws/credentials`; default: that of the environment, if any.
    pub credentials_file: Option<PathBuf>,
    /// DynamoDB: where a process on this machine lends access keys, in the form of the endpoint for
    /// containers of AWS; default: none are lent.
    pub credentials_url: Option<Lender>,
    /// DynamoDB: answer `Query` and `Scan` from storage too; any write to a table drops all of its
    /// pages. Default: no.
    #[serde(default)]
    pub cache_queries: bool,
    /// Clients connect with TLS; default: without.
    pub tls: Option<TlsDocument>,
    /// TLS to an origin whose address requires it: expected certificates, and the client
    /// certificate.
    pub origin_tls: Option<OriginTlsDocument>,
}

/// The feed of an origin, or the login at Sentinels; `feed = {}` if the origin needs no password.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedDocument {
    /// Username; default for Redis: the user `default`.
    pub user: Option<String>,
    /// File that contains the password and nothing else.
    pub password_file: Option<PathBuf>,
    /// DynamoDB: the access key that reads the streams; its secret is in `credentials_file`, or in
    /// the environment.
    pub access_key: Option<String>,
    /// DynamoDB: the region of the tables.
    pub region: Option<String>,
    /// DynamoDB: the server of the streams; default: the origin.
    pub endpoint: Option<Address>,
    /// DynamoDB: interval between two reads of a shard, 200 ms to 1 min; default: 1 s.
    pub interval: Option<Time>,
}

impl ListenerDocument {
    fn is_transparent(&self) -> bool {
        self.transparent || self.origin.is_original()
    }

    /// A listener with only its two addresses.
    #[must_use]
    pub fn new(listen: Address, origin: Address) -> Self {
        Self {
            listen,
            origin,
            include: Vec::new(),
            exclude: Vec::new(),
            ttl: BTreeMap::new(),
            memory_min: None,
            memory_max: None,
            unique_fields: Vec::new(),
            advertise: None,
            cluster: None,
            transparent: false,
            scripts: Scripts::default(),
            unknown_expiry: UnknownExpiry::default(),
            feed: None,
            sentinel: None,
            credentials_file: None,
            credentials_url: None,
            cache_queries: false,
            tls: None,
            origin_tls: None,
        }
    }
}

/// Returns the error for a mistake at a position in `text`, the file `name`.
fn report(found: Result<(), Mistake>, text: &str, name: &str) -> anyhow::Result<()> {
    found.map_err(|mistake| {
        anyhow::anyhow!("{name}:{}: {}", place(text, mistake.span(text)), mistake.message)
    })
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or the line and column of a mistake.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.display().to_string();
        let document = Self::parse(&text, &name)?;
        report(document.find_missing(), &text, &name)?;
        Ok(document)
    }

    /// Reads the text of a file called `name`.
    ///
    /// # Errors
    /// Line and column of a mistake.
    pub fn parse(text: &str, name: &str) -> anyhow::Result<Self> {
        let document: Self = toml::from_str(text).map_err(|error| {
            anyhow::anyhow!("{name}:{}: {}", place(text, error.span()), error.message())
        })?;
        report(document.find_mistake(), text, name)?;
        Ok(document)
    }

    /// Checks the consistency of a document that was not read from a text.
    pub(crate) fn check(&self, name: &str) -> anyhow::Result<()> {
        let found = self.find_mistake().and_then(|()| self.find_missing());
        found.map_err(|mistake| anyhow::anyhow!("{name}: {}", mistake.message))
    }
}

#[cfg(test)]
mod tests;
