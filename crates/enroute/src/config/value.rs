//! Parses single values; each error states what was expected.

use std::time::Duration;

use cache::filter::{mongo, resp};
use notation::Time;
use serde::{Deserialize, Deserializer, de};

use crate::THREADS_MAX;

/// A unique field: `database.collection.field`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UniqueField(pub(super) mongo::UniqueField);

impl TryFrom<String> for UniqueField {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self)
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

/// Reads a number of threads.
pub(super) fn threads<'de, D: Deserializer<'de>>(source: D) -> Result<Option<usize>, D::Error> {
    match usize::deserialize(source)? {
        count @ 1..=THREADS_MAX => Ok(Some(count)),
        count => Err(de::Error::custom(format!("expected 1 to {THREADS_MAX}, got {count}"))),
    }
}

/// Reads a time of more than 0.
pub(super) fn above_zero<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Time>, D::Error> {
    match Time::deserialize(source)? {
        time if time.duration() == Duration::ZERO => Err(de::Error::custom(
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
    /// Like clock, but items that were never read are evicted sooner
    Sieve,
    /// As sieve, but refuses new items while keeping a part of a large set answers more than that
    Hull,
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
            Replacement::Hull => Self::Hull,
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
    /// Only the keys that it declares; no server enforces that
    DeclaredKeys,
}

/// Handling of replies to users that may not run PTTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownExpiry {
    /// They are not stored
    #[default]
    NotStored,
    /// They are stored for the configured `ttl`
    Ttl,
}

impl From<UnknownExpiry> for resp::Expiry {
    fn from(written: UnknownExpiry) -> Self {
        match written {
            UnknownExpiry::NotStored => Self::NotStored,
            UnknownExpiry::Ttl => Self::Ttl,
        }
    }
}

impl From<Scripts> for resp::Scripts {
    fn from(written: Scripts) -> Self {
        match written {
            Scripts::Everything => Self::Everything,
            Scripts::DeclaredKeys => Self::DeclaredKeys,
        }
    }
}
