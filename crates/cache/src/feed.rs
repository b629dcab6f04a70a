//! Feed: reports of an origin about writes that bypass the cache.
//!
//! A connection of the cache requests a report of every write by any client: from Redis by `CLIENT
//! TRACKING` ([`redis`]), from MongoDB by a change stream ([`mongo`]), from DynamoDB by reading the
//! streams of its tables ([`dynamodb`]). Each report is an invalidation like a forwarded write: it
//! drops the entries that it names and revokes their leases, so a reply that was read before it and
//! arrives after it is not stored.
//!
//! **Fail closed.** While there is no feed – before the first connection, after a loss, when it is
//! silent or late – the origin is closed as by an unsettled write: nothing is stored, and all
//! requests are forwarded. Of DynamoDB, each table is closed for itself.
//!
//! A write that bypasses the cache stays unseen for the delay of the feed.
//!
//! Decision: `docs/decisions/0005-changes-at-the-origin.md`.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    Error, Output,
    filter::{
        dynamodb::Settings as DynamoDbSettings, mongo::Settings as MongoSettings,
        resp::Settings as RespSettings,
    },
    key::Scope,
    storage::Storage,
};

pub mod dynamodb;
pub mod mongo;
pub mod redis;

/// How a feed detects its own loss.
#[derive(Debug, Clone)]
pub struct Config {
    /// Logs in before anything else: user (none for the default user) and password.
    pub login: Option<(Option<String>, String)>,
    /// Interval of liveness checks of the origin; of DynamoDB, between two reads of a shard.
    pub ping_interval: Duration,
    /// Time of silence after which a feed is considered lost, and age of its last confirmation from
    /// which on nothing is served.
    pub silence_max: Duration,
}

/// Number of intervals after which a feed that has not been confirmed is suspended.
const INTERVALS_MISSED: u32 = 5;

impl Config {
    /// A feed with this login and interval, whose silence is five intervals, or the default if that
    /// is longer.
    #[must_use]
    pub fn new(login: Option<(Option<String>, String)>, ping_interval: Duration) -> Self {
        let silence_max = Self::default().silence_max.max(ping_interval * INTERVALS_MISSED);
        Self { login, ping_interval, silence_max }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            login: None,
            ping_interval: Duration::from_secs(1),
            silence_max: Duration::from_secs(5),
        }
    }
}

/// The origin that reports, as its sessions name it.
#[derive(Debug, Clone)]
pub enum Reporter {
    /// Redis or Valkey.
    Redis(Arc<RespSettings>),
    /// MongoDB.
    Mongo(Arc<MongoSettings>),
    /// DynamoDB.
    DynamoDb(Arc<DynamoDbSettings>),
}

/// The feed of one origin.
#[derive(Debug)]
pub enum Feed {
    /// Redis or Valkey.
    Redis(Box<redis::Feed>),
    /// MongoDB.
    Mongo(Box<mongo::Feed>),
    /// DynamoDB.
    DynamoDb(Box<dynamodb::Feed>),
}

impl Feed {
    /// A feed that is not connected: nothing of the origin is stored until it is. Feeds of nodes
    /// of one cluster need the same `clusters`.
    pub fn new<S: Storage>(
        reporter: Reporter,
        config: Config,
        clusters: &mut redis::Clusters,
        storage: &mut S,
    ) -> Self {
        match reporter {
            Reporter::Redis(settings) => {
                Self::Redis(Box::new(redis::Feed::new(settings, config, clusters, storage)))
            }
            Reporter::Mongo(settings) => {
                Self::Mongo(Box::new(mongo::Feed::new(settings, config, storage)))
            }
            Reporter::DynamoDb(settings) => {
                Self::DynamoDb(Box::new(dynamodb::Feed::new(settings, config)))
            }
        }
    }

    /// A new connection to the origin was made. `nonce` is random and used once.
    pub fn connected(&mut self, nonce: u128, now: Duration) {
        match self {
            Self::Redis(feed) => feed.connected(now),
            Self::Mongo(feed) => feed.connected(nonce, now),
            Self::DynamoDb(feed) => feed.connected(now),
        }
    }

    /// Takes bytes of the origin.
    ///
    /// # Errors
    /// The origin refuses the feed, or does not speak the protocol. Close the connection and call
    /// [`Self::lost`].
    pub fn receive<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        match self {
            Self::Redis(feed) => feed.receive(bytes, storage, now),
            Self::Mongo(feed) => feed.receive(bytes, storage, now),
            Self::DynamoDb(feed) => feed.receive(bytes, storage, now),
        }
    }

    /// What is to be written to the origin.
    pub fn output(&mut self) -> &mut Output {
        match self {
            Self::Redis(feed) => feed.output(),
            Self::Mongo(feed) => feed.output(),
            Self::DynamoDb(feed) => feed.output(),
        }
    }

    /// Ready if [`Self::output`] has a request that sessions have caused.
    pub fn poll_wanted(&mut self, context: &Context<'_>) -> Poll<()> {
        match self {
            Self::Redis(feed) => feed.poll_wanted(context),
            Self::Mongo(_) | Self::DynamoDb(_) => Poll::Pending,
        }
    }

    /// When [`Self::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        match self {
            Self::Redis(feed) => feed.poll_timeout(),
            Self::Mongo(feed) => feed.poll_timeout(),
            Self::DynamoDb(feed) => feed.poll_timeout(),
        }
    }

    /// Handles elapsed time.
    ///
    /// # Errors
    /// Why the feed is not valid any more: close the connection and call [`Self::lost`].
    pub fn handle_timeout<S: Storage>(
        &mut self,
        storage: &mut S,
        now: Duration,
    ) -> Result<(), &'static str> {
        match self {
            Self::Redis(feed) => feed.handle_timeout(now),
            Self::Mongo(feed) => feed.handle_timeout(storage, now),
            Self::DynamoDb(feed) => feed.handle_timeout(storage, now),
        }
    }

    /// The connection is lost, and with it any further reports.
    pub fn lost<S: Storage>(&mut self, storage: &mut S) {
        match self {
            Self::Redis(feed) => feed.lost(storage),
            Self::Mongo(feed) => feed.lost(storage),
            Self::DynamoDb(feed) => feed.lost(storage),
        }
    }

    /// Whether the feed is established.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Redis(feed) => feed.is_open(),
            Self::Mongo(feed) => feed.is_open(),
            Self::DynamoDb(feed) => feed.is_open(),
        }
    }

    /// Whether the origin may close the connection now: that is no loss. The next connection goes
    /// on where this one was.
    #[must_use]
    pub fn may_end(&self) -> bool {
        match self {
            Self::Redis(_) | Self::Mongo(_) => false,
            Self::DynamoDb(feed) => feed.is_idle(),
        }
    }

    /// What the bound `silence_max` leaves out, for the log.
    #[must_use]
    pub fn caveat(&self) -> &'static str {
        match self {
            Self::Redis(_) | Self::Mongo(_) => "",
            Self::DynamoDb(_) => ", and the delay of the streams, which DynamoDB does not state",
        }
    }
}

/// Why a feed has ended.
const SILENT: &str = "no reply on the feed connection";

fn dropped<S: Storage>(scope: Scope<'_>, storage: &mut S) {
    storage.stats().fed.add(1);
    storage.written_elsewhere(scope);
}
