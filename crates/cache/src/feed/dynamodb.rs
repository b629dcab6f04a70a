//! Reports of a DynamoDB origin, by DynamoDB Streams.
//!
//! One connection, one request at a time. The feed lists the streams of all tables ([`list`]),
//! describes those of the tables that may be stored, and reads their shards again and again
//! ([`table`]). The key of each record is dropped, and the pages of its table.
//!
//! **Tables.** Only tables whose stream is read are cached: each is opened once all of its shards
//! were read, and closed when the last time at which all were is older than `silence_max`.
//!
//! **Losses.** After a lost connection every shard is read on from where it was; entries are
//! suspended until all have been. If that place is not kept any more (an expired iterator of a
//! shard without a record, trimmed records, shards that end and are not continued) the table is
//! read from now on: first the new iterators are requested and used, then its entries are dropped.
//!
//! **Lateness.** DynamoDB does not state how far a stream is: its own delay is not noticed.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use tracing::info;
use wire::{
    dynamodb::{
        reply::{self, Reply, Scanner},
        request::JSON,
        streams::{self, Description, Streams},
    },
    sigv4::{Credentials, Post, Verifier},
};

use self::{
    list::{List, TABLES_MAX},
    table::{PAUSE_MIN, Table},
    told::{NO_STREAM, TOO_MANY, Told},
};
use super::{Config, SILENT};
use crate::{Error, Output, filter::dynamodb::Settings, live, rules::Followed, storage::Storage};

mod list;
mod shard;
mod table;
mod told;

/// Allowed intervals between two reads of a shard.
pub const INTERVALS: RangeInclusive<Duration> = PAUSE_MIN..=Duration::from_mins(1);
/// Interval at which streams are listed, and the shards of each are described. A table is closed if
/// either takes longer than the bound of the feed beyond that.
const REFRESH: Duration = Duration::from_secs(10);
/// Longest text of an error that is logged.
const SHOWN_BYTES_MAX: usize = 256;

/// The feed of one DynamoDB origin.
#[derive(Debug)]
pub struct Feed {
    settings: Arc<Settings>,
    config: Config,
    credentials: live::Seen<Credentials>,
    verifier: Verifier,
    output: Output,
    /// The reply so far, and how much of it the scanner has seen.
    reply: (Vec<u8>, usize),
    scanner: Scanner,
    asked: Option<Asked>,
    /// The origin closes the connection after the last reply.
    ends: bool,
    heard_at: Duration,
    list: List,
    tables: BTreeMap<String, Table>,
    /// Streams that ended; the next stream of their table has another name.
    disabled: BTreeMap<String, String>,
    told: Told,
}

/// The request whose reply must come.
#[derive(Debug)]
struct Asked {
    step: Step,
    at: Duration,
}

/// What a request asks.
#[derive(Debug, Clone)]
enum Step {
    /// The streams of all tables.
    List,
    /// The shards of a table.
    Describe { table: String },
    /// Where to read a shard.
    Iterate { table: String, shard: String },
    /// The next records of a shard.
    Read { table: String, shard: String },
}

impl Step {
    /// The table, and the shard of it, if it asks about one.
    fn place(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::List => None,
            Self::Describe { table } => Some((table, None)),
            Self::Iterate { table, shard } | Self::Read { table, shard } => {
                Some((table, Some(shard)))
            }
        }
    }
}

impl Feed {
    /// A feed that is not connected: nothing of the origin is stored until it is.
    #[must_use]
    pub fn new(settings: Arc<Settings>, config: Config) -> Self {
        settings.keys.follow(Some(Followed::Tables([].into())));
        Self {
            credentials: live::Seen::of(&settings.credentials),
            settings,
            config,
            verifier: Verifier::default(),
            output: Output::default(),
            reply: (Vec::new(), 0),
            scanner: Scanner::default(),
            asked: None,
            ends: false,
            heard_at: Duration::ZERO,
            list: List::default(),
            tables: BTreeMap::new(),
            disabled: BTreeMap::new(),
            told: Told::default(),
        }
    }

    /// A new connection to the origin was made. [`Self::handle_timeout`] writes the first request.
    pub fn connected(&mut self, now: Duration) {
        self.heard_at = now;
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
        self.heard_at = now;
        let (mut reply, mut seen) = mem::take(&mut self.reply);
        reply.extend_from_slice(bytes);
        let rest = reply.get(seen..).unwrap_or_default();
        let progress = self.scanner.advance(rest, false, &self.settings.limits);
        let progress = progress.map_err(Error::Server)?;
        seen += progress.consumed;
        if !progress.complete {
            self.reply = (reply, seen);
            return Ok(());
        }
        let asked = self.asked.take().filter(|_| seen == reply.len());
        let asked = asked.ok_or_else(|| refused("one reply to each request", "more bytes"))?;
        let parsed = Reply::parse(&reply, &self.settings.limits);
        let parsed = parsed.ok_or_else(|| refused("a whole reply", "an interim reply"))?;
        self.ends = !parsed.head.head.keeps_alive();
        self.answered(&asked, &parsed, storage, now)?;
        self.judge(storage, now);
        self.ask(now).map_err(|why| refused(why, "none"))
    }

    /// What is to be written to the origin.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// When [`Self::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        let silent_at = self.heard_at + self.config.silence_max;
        let next = if self.is_idle() && !self.ends { self.next().0 } else { silent_at };
        let Some(listed_at) = self.list.whole_at() else { return next };
        let open = self.tables.values().filter(|table| table.is_open());
        let closes_at = open.filter_map(|it| it.closes_at(listed_at, self.config.silence_max));
        closes_at.fold(next, Duration::min)
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
        self.judge(storage, now);
        let is_waiting = !self.is_idle() || self.ends;
        if is_waiting && now >= self.heard_at + self.config.silence_max {
            return Err(SILENT);
        }
        self.ask(now)
    }

    /// The connection is lost, and with it any further reports.
    pub fn lost<S: Storage>(&mut self, storage: &mut S) {
        self.output.clear();
        (self.reply, self.scanner) = ((Vec::new(), 0), Scanner::default());
        (self.asked, self.ends) = (None, false);
        self.list = List::default();
        for table in self.tables.values_mut() {
            table.disconnected(&self.settings, storage);
        }
    }

    /// Whether no reply is missing: the origin may close the connection.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.asked.is_none()
    }

    /// Whether all tables with a stream are open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.list.whole_at().is_some() && !self.tables.values().any(Table::is_awaited)
    }

    fn judge<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        let settings = &*self.settings;
        let ages = (self.list.whole_at(), self.config.silence_max);
        for (name, table) in &mut self.tables {
            if table.judge((settings, storage), ages, now) {
                info!(origin = settings.origin, "feed: changes of table {name} are reported");
                self.told.forget(name);
            }
        }
    }

    /// The next request, and when it is due.
    fn next(&self) -> (Duration, Step) {
        let list = (self.list.due(), Step::List);
        let tables = self.tables.values().map(Table::next);
        tables.fold(list, |first, next| if next.0 < first.0 { next } else { first })
    }

    /// Writes the next request if it is due.
    fn ask(&mut self, now: Duration) -> Result<(), &'static str> {
        let (due, step) = self.next();
        if !self.is_idle() || self.ends || due > now {
            return Ok(());
        }
        let call = match &step {
            Step::List => Some(self.list.call()),
            Step::Describe { table } => self.tables.get_mut(table).map(|table| table.describe(now)),
            Step::Iterate { table, shard } | Step::Read { table, shard } => {
                self.tables.get(table).and_then(|table| table.call(shard))
            }
        };
        let (Some(call), Some(account)) = (call, &self.settings.streams) else { return Ok(()) };
        if self.credentials.refresh(&self.settings.credentials) {
            // It keeps a key that was derived from a secret.
            self.verifier = Verifier::default();
        }
        let (target, body) = ([streams::TARGET, call.operation()].concat(), call.body());
        let post = Post {
            host: &account.host,
            target: &target,
            content_type: JSON,
            body: body.as_bytes(),
            access_key: &account.access_key,
            region: &account.region,
            service: "dynamodb",
        };
        let time = self.settings.clock + now;
        let out = self.output.buffer();
        self.verifier.write(&post, &self.credentials, time, out).map_err(|_| UNKNOWN_KEY)?;
        self.asked = Some(Asked { step, at: now });
        self.heard_at = now;
        Ok(())
    }

    fn answered<S: Storage>(
        &mut self,
        asked: &Asked,
        reply: &Reply<'_>,
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        if reply.head.status != 200 {
            return self.failed(&asked.step, reply, storage, now);
        }
        let Some((body, _)) = reply.answer(&self.settings.limits) else {
            return Err(refused("an answer in JSON that is not damaged", "another"));
        };
        let body = &*body;
        let unreadable = || refused("a reply of DynamoDB Streams", "another answer");
        let Config { ping_interval, silence_max, .. } = self.config;
        let Some((name, shard)) = asked.step.place() else {
            let page = Streams::parse(body).ok_or_else(unreadable)?;
            if self.list.take(&page, &self.settings.keys.current(), now)? {
                self.adopt(storage, now);
            }
            return Ok(());
        };
        let Some(table) = self.tables.get_mut(name) else { return Ok(()) };
        match (&asked.step, shard) {
            (Step::Iterate { .. }, Some(shard)) => {
                let iterator = streams::iterator(body).ok_or_else(unreadable)?;
                table.iterated(shard, iterator.0.into_owned(), now);
            }
            (_, Some(shard)) => {
                let times = (asked.at, now);
                table.read(shard, body, ping_interval, (&self.settings, storage), times);
            }
            (_, None) => {
                let page = Description::parse(body).ok_or_else(unreadable)?;
                if let Err(why) = table.described(&page, (ping_interval, silence_max), now) {
                    let (name, arn) = (name.to_owned(), table.arn().to_owned());
                    self.leave(&name, Some(why), storage, now);
                    if why == NO_STREAM {
                        self.disabled.insert(name, arn);
                    }
                }
            }
        }
        Ok(())
    }

    /// The reply is an error.
    fn failed<S: Storage>(
        &mut self,
        step: &Step,
        reply: &Reply<'_>,
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        let error = reply::error(&reply.body);
        let error = error.as_ref().map_or("", |error| &error.0);
        let later = now + self.config.ping_interval;
        let is_temporary = reply.head.status >= 500 || TEMPORARY.contains(&error);
        let shown = reply.body.get(..SHOWN_BYTES_MAX).unwrap_or(&reply.body).escape_ascii();
        let got = format!("status {}: {shown}", reply.head.status);
        let Some((name, shard)) = step.place() else {
            self.list.postpone(later);
            let expected = "an origin that lists its streams (`dynamodb:ListStreams`); see `access_key` and \
                            `endpoint` of `feed`";
            return if is_temporary { Ok(()) } else { Err(refused(expected, &got)) };
        };
        let Some(table) = self.tables.get_mut(name) else { return Ok(()) };
        match (error, shard) {
            _ if is_temporary => table.postpone(shard, later),
            ("ExpiredIteratorException", Some(shard)) => table.expired(shard, now),
            ("TrimmedDataAccessException", _) => table.restart(now),
            ("ResourceNotFoundException", _) => self.leave(name, Some(NO_STREAM), storage, now),
            _ => {
                let why = format!("its stream cannot be read: {got}");
                self.leave(name, Some(&why), storage, now);
            }
        }
        Ok(())
    }

    /// Reads the streams that were listed, and no others.
    fn adopt<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        let found = self.list.found();
        let is_first = self.list.complete(now);
        let is_same = |name: &str, arn: &str| found.get(name).is_some_and(|found| found.1 == arn);
        self.disabled.retain(|name, arn| is_same(name, arn));
        let gone = self.tables.iter().filter(|(name, table)| !is_same(name, table.arn()));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            // One that has another stream is read again.
            let why = if found.contains_key(&name) { None } else { Some(NO_STREAM) };
            self.leave(&name, why, storage, now);
        }
        for (name, (_, arn)) in &found {
            if self.disabled.contains_key(name) || self.tables.contains_key(name) {
                continue;
            }
            let table = Table::new((name, arn), is_first, &self.settings, storage);
            self.tables.insert(name.clone(), table);
        }
        self.follow();
        let rules = self.settings.keys.current();
        let mut wanted: BTreeSet<String> = rules.named().map(str::to_owned).collect();
        wanted.extend(self.settings.streams.iter().flat_map(|all| all.wanted.tables()));
        self.told.keep(|name| wanted.contains(name) || self.tables.contains_key(name));
        let why = if found.len() < TABLES_MAX { NO_STREAM } else { TOO_MANY };
        for name in wanted.iter().filter(|name| !self.tables.contains_key(*name)) {
            self.told.tell_first(&self.settings, name, why);
        }
    }

    /// A table whose stream is not read is not cached.
    fn leave<S: Storage>(&mut self, name: &str, why: Option<&str>, storage: &mut S, now: Duration) {
        let Some(table) = self.tables.remove(name) else { return };
        self.follow();
        table.leave(&self.settings, storage, now);
        why.into_iter().for_each(|why| self.told.tell(&self.settings, name, why));
    }

    fn follow(&self) {
        let names = self.tables.keys().cloned().collect();
        self.settings.keys.follow(Some(Followed::Tables(names)));
    }
}

/// Errors after which the same request can succeed.
const TEMPORARY: [&str; 6] = [
    "InternalServerError",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ThrottlingException",
];
const UNKNOWN_KEY: &str = "a secret for the `access_key` of `feed` among the credentials";

fn refused(expected: &'static str, got: &str) -> Error {
    let got = got.to_owned();
    Error::Server(wire::Error::Malformed { protocol: "dynamodb", offset: 0, expected, got })
}

#[cfg(test)]
mod tests;
