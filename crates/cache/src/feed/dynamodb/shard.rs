//! Shards of a stream, as far as they are known.

use std::{collections::BTreeMap, time::Duration};

use wire::dynamodb::streams::Start;

/// A shard that was described.
#[derive(Debug)]
pub(super) enum Shard {
    /// It is read.
    Read(Reading),
    /// Its end was found at this time, by reading it or by its description. The shards that
    /// continue it are not known.
    Ended { at: Duration, was_read: bool },
    /// It has ended, and shards that continue it are known.
    Done,
}

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) position: Position,
    /// From where the next records are read.
    pub(super) iterator: Option<String>,
    pub(super) due: Duration,
    /// When it was last read up to its end so far.
    pub(super) tip_at: Option<Duration>,
}

/// What of a shard was read.
#[derive(Debug)]
pub(super) enum Position {
    /// Nothing: it is read from the time on at which its first iterator was requested.
    Latest,
    /// Nothing: it is read from its beginning.
    TrimHorizon,
    /// All up to this sequence number.
    After(String),
}

/// A description in several pages.
#[derive(Debug, Default)]
pub(super) struct Paging {
    pub(super) due: Duration,
    pub(super) began_at: Duration,
    /// The last shard of the page before.
    pub(super) after: Option<String>,
    pub(super) listed: BTreeMap<String, Listed>,
    pub(super) pages: usize,
}

#[derive(Debug)]
pub(super) struct Listed {
    pub(super) parent: Option<String>,
    pub(super) is_closed: bool,
}

impl Reading {
    /// A shard of which nothing was read.
    pub(super) fn from(position: Position) -> Shard {
        Shard::Read(Self { position, iterator: None, due: Duration::ZERO, tip_at: None })
    }
}

impl Position {
    /// Where its next iterator begins.
    pub(super) fn start(&self) -> Start<'_> {
        match self {
            Self::Latest => Start::Latest,
            Self::TrimHorizon => Start::TrimHorizon,
            Self::After(number) => Start::After(number),
        }
    }
}
