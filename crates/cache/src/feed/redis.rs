//! Reports of a Redis origin, by `CLIENT TRACKING ON BCAST`: every key that is written, expires or
//! is evicted, by any client; with `PREFIX` only those that the rules of the listener include. If
//! the rules include a part of the keys that no prefixes describe, by `OPTIN`: only keys that are
//! read ([`Tracked`](crate::filter::resp::Tracked)).
//!
//! A feed that was lost may have missed anything, so closing drops all. Tracking does not report
//! the database of a written key, so the key is dropped from all of them.
//!
//! Of a cluster, each node has a feed; together they close and open its entries ([`coverage`]). A
//! node that has lost its primary role or some slots may have answered reads after the next owner
//! accepted writes. So the feed asks for the owners of the slots instead of sending `PING`: if they
//! change, everything is dropped, and a node without a complete cluster is no valid origin.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use smallvec::SmallVec;
use wire::resp::{Frame, Kind, frame, request};

use super::{Config, SILENT, dropped};
use crate::{
    Error, Output,
    filter::resp::{FEED_DATABASES, Mark, Settings, Wish, namespace},
    input::Input,
    key::{Key, Scope},
    lease::Outcome,
    rules::Followed,
    storage::{Storage, Write},
};

/// Replies that may be missing before further keys are asked for.
const EXPECTED_MAX: usize = 4_096;

mod coverage;

pub use coverage::Clusters;
use coverage::Coverage;

/// The feed of one Redis origin.
#[derive(Debug)]
pub struct Feed {
    settings: Arc<Settings>,
    config: Config,
    input: Input,
    output: Output,
    /// The origin's databases, closed while there is no feed; of a cluster, `cluster` has them.
    closed: SmallVec<[Write; 16]>,
    /// The feeds of the cluster of which the origin is a node, and the number of the node.
    cluster: Option<(Arc<Mutex<Coverage>>, usize)>,
    is_open: bool,
    /// Number of replies to our commands still missing before the feed is established.
    awaited: u32,
    /// Beginnings of the keys that the origin was asked to report; none are all keys.
    prefixes: Option<Vec<Vec<u8>>>,
    /// It is asked to report each key that it was asked for.
    by_key: bool,
    /// Then, the replies that are missing besides `awaited`.
    expected: VecDeque<Asked>,
    /// The database that its connection has asked for last.
    database: u32,
    /// The origin has selected the last database that it was asked for.
    is_selected: bool,
    /// The last reply to `CLUSTER SLOTS`.
    owners: Vec<u8>,
    heard_at: Duration,
    pinged_at: Duration,
}

/// A command of a feed by key.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// Its refusal ends the feed.
    Plain,
    ToSelect,
    ToTrack(Mark),
}

impl Feed {
    /// A feed that is not connected: nothing of the origin is stored until it is.
    pub fn new<S: Storage>(
        settings: Arc<Settings>,
        config: Config,
        clusters: &mut Clusters,
        storage: &mut S,
    ) -> Self {
        if settings.clustered {
            // Entries are stored through any listener of the cluster, and each knows only the
            // databases that its own clients have selected.
            (0..FEED_DATABASES).for_each(|database| settings.databases.choose(database));
        }
        let mut feed = Self {
            settings,
            config,
            input: Input::default(),
            output: Output::default(),
            closed: SmallVec::new(),
            cluster: None,
            is_open: false,
            awaited: 0,
            prefixes: None,
            by_key: false,
            expected: VecDeque::new(),
            database: 0,
            is_selected: true,
            owners: Vec::new(),
            heard_at: Duration::ZERO,
            pinged_at: Duration::ZERO,
        };
        if feed.settings.clustered {
            let coverage = clusters.of(&feed.settings.origin);
            let number = lock(&coverage).add(&feed.settings, storage);
            feed.cluster = Some((coverage, number));
        } else {
            feed.close(storage);
        }
        feed
    }

    /// A new connection to the origin was made.
    pub fn connected(&mut self, now: Duration) {
        self.by_key = self.needs_keys();
        (self.database, self.is_selected) = (0, true);
        self.settings.tracked.begin(self.by_key);
        let out = self.output.buffer();
        let command = |words: &[&str], out: &mut Vec<u8>| request::write_command(out, words);
        match &self.config.login {
            None => command(&["HELLO", "3"], out),
            Some((user, password)) => {
                let user = user.as_deref().unwrap_or("default");
                command(&["HELLO", "3", "AUTH", user, password], out);
            }
        }
        self.prefixes = self.settings.keys.current().prefixes();
        let mode: &[u8] = if self.by_key { b"OPTIN" } else { b"BCAST" };
        let mut tracking = vec![&b"CLIENT"[..], b"TRACKING", b"ON", mode];
        let prefixes = self.prefixes.iter().flatten();
        tracking.extend(prefixes.flat_map(|prefix| [&b"PREFIX"[..], prefix]));
        request::write_command(out, &tracking);
        self.awaited = 2;
        if self.settings.clustered {
            ask_for_owners(out);
            self.awaited += 2;
        }
        (self.heard_at, self.pinged_at) = (now, now);
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
        let all = self.input.take_with(bytes);
        let mut taken = 0;
        while let Some((message, length)) =
            frame::decode(all.waiting().get(taken..).unwrap_or_default(), &self.settings.limits)
                .map_err(Error::Server)?
        {
            taken += length;
            match message.kind() {
                Kind::Push => self.invalidate(&message, storage),
                _ => self.answered(&message, storage)?,
            }
        }
        self.input.put_back(all, taken);
        Ok(())
    }

    /// Ready if there are keys that the origin is to report from now on: their reads are in
    /// [`Self::output`] then.
    pub fn poll_wanted(&mut self, context: &Context<'_>) -> Poll<()> {
        let ready = self.is_open && self.by_key && self.expected.len() < EXPECTED_MAX;
        if !ready || self.settings.tracked.poll_wanted(context).is_pending() {
            return Poll::Pending;
        }
        for Wish { mark, database, key } in self.settings.tracked.take_wanted() {
            let out = self.output.buffer();
            if database != self.database {
                request::write_command(out, &["SELECT", &database.to_string()]);
                self.expected.push_back(Asked::ToSelect);
                self.database = database;
            }
            request::write_command(out, &["CLIENT", "CACHING", "YES"]);
            request::write_command(out, &[b"EXISTS".as_slice(), &key]);
            self.expected.extend([Asked::Plain, Asked::ToTrack(mark)]);
        }
        Poll::Ready(())
    }

    /// What is to be written to the origin.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// When [`Self::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        (self.pinged_at + self.config.ping_interval).min(self.heard_at + self.config.silence_max)
    }

    /// Handles elapsed time.
    ///
    /// # Errors
    /// Why the feed is not valid any more: close the connection and call [`Self::lost`].
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), &'static str> {
        if now >= self.heard_at + self.config.silence_max {
            return Err(SILENT);
        }
        if !self.settings.keys.current().are_within(self.prefixes.as_deref()) {
            return Err("the rules include keys with other prefixes now");
        }
        if self.by_key != self.needs_keys() {
            return Err("the rules include another part of the keys now");
        }
        if now >= self.pinged_at + self.config.ping_interval {
            match self.settings.clustered {
                true => ask_for_owners(self.output.buffer()),
                false => {
                    request::write_command(self.output.buffer(), &["PING"]);
                    self.expected.extend(self.by_key.then_some(Asked::Plain));
                }
            }
            self.pinged_at = now;
        }
        Ok(())
    }

    /// The connection is lost, and with it any further reports.
    pub fn lost<S: Storage>(&mut self, storage: &mut S) {
        self.input = Input::default();
        self.output.clear();
        self.awaited = 0;
        self.expected.clear();
        self.owners.clear();
        self.close(storage);
    }

    /// Whether the feed is established.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    fn open<S: Storage>(&mut self, storage: &mut S) {
        self.is_open = true;
        if let Some((coverage, number)) = &self.cluster {
            lock(coverage).opened(*number, &self.settings, storage);
        }
        for write in std::mem::take(&mut self.closed) {
            storage.write_settled(write, Outcome::Applied);
        }
    }

    fn close<S: Storage>(&mut self, storage: &mut S) {
        self.is_open = false;
        if let Some((coverage, number)) = &self.cluster {
            return lock(coverage).lost(*number, &self.settings, storage);
        }
        if !self.closed.is_empty() {
            return;
        }
        for database in 0..FEED_DATABASES {
            let namespace = namespace(&self.settings, database);
            self.closed.push(storage.write_sent(namespace.whole_database().into()));
        }
    }

    /// Whether the rules include a part of the keys that no prefixes describe. Of a cluster, the
    /// next owner of a slot does not know what was asked of the last one; what a write states was
    /// not read.
    fn needs_keys(&self) -> bool {
        let rules = self.settings.keys.current();
        let settings = &self.settings;
        rules.selects() && rules.prefixes().is_none() && !settings.clustered && !settings.on_write
    }

    fn answered<S: Storage>(&mut self, reply: &Frame<'_>, storage: &mut S) -> Result<(), Error> {
        if self.awaited == 0 {
            // What the user of the feed may not read is not stored.
            match self.expected.pop_front() {
                Some(Asked::ToSelect) => {
                    self.is_selected = reply.error().is_none();
                    return Ok(());
                }
                Some(Asked::ToTrack(mark)) => {
                    if self.is_selected && reply.integer().is_some() {
                        self.settings.tracked.mark(mark);
                    }
                    return Ok(());
                }
                Some(Asked::Plain) | None => {}
            }
        }
        if let Some(error) = reply.error() {
            return Err(refused("an origin that lets the feed log in and track", error));
        }
        if self.settings.clustered {
            self.check_owners(reply, storage)?;
        }
        if self.awaited > 0 {
            self.awaited -= 1;
            if self.awaited == 0 {
                self.settings.keys.follow(self.prefixes.clone().map(Followed::Beginning));
                // From here on the origin names every write, so reads may be stored again.
                self.open(storage);
            }
        }
        Ok(())
    }

    /// Takes the replies to [`ask_for_owners`].
    fn check_owners<S: Storage>(
        &mut self,
        reply: &Frame<'_>,
        storage: &mut S,
    ) -> Result<(), Error> {
        match (reply.kind(), reply.payload()) {
            (Kind::Verbatim | Kind::Bulk, Some(info)) => {
                let info = info.strip_prefix(b"txt:").unwrap_or(info);
                let mut lines = info.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
                match lines.find(|line| line.starts_with(b"cluster_state:")) {
                    Some(b"cluster_state:ok") => Ok(()),
                    state => Err(refused("cluster_state:ok", state.unwrap_or(info))),
                }
            }
            (Kind::Array, _) => {
                if self.owners != reply.bytes() {
                    if !self.owners.is_empty() {
                        self.drop_all(storage);
                    }
                    self.owners = reply.bytes().to_vec();
                }
                if let Some((coverage, number)) = &self.cluster {
                    let owners = self.settings.addresses.owners(reply);
                    lock(coverage).owned(*number, owners, &self.settings, storage);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn drop_all<S: Storage>(&self, storage: &mut S) {
        for database in self.settings.databases.numbers() {
            dropped(namespace(&self.settings, database).whole_database(), storage);
        }
    }

    /// `>2 invalidate [key …]`, or null instead of the keys when everything was flushed.
    fn invalidate<S: Storage>(&self, push: &Frame<'_>, storage: &mut S) {
        let mut elements = push.elements();
        if elements.next().and_then(|name| name.payload()) != Some(b"invalidate") {
            return;
        }
        let Some(keys) = elements.next() else { return };
        if keys.is_null() {
            // The origin tracks nothing any more.
            self.settings.tracked.begin(self.by_key);
            self.drop_all(storage);
            return;
        }
        for database in self.settings.databases.numbers() {
            let namespace = namespace(&self.settings, database);
            for key in keys.elements().filter_map(|key| key.payload()) {
                self.settings.tracked.reported(database, key, self.settings.secret);
                dropped(Scope::Key(Key::new(namespace, key)), storage);
            }
        }
    }
}

fn lock(coverage: &Mutex<Coverage>) -> std::sync::MutexGuard<'_, Coverage> {
    coverage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks a node whether its cluster is complete, and which nodes own the slots.
fn ask_for_owners(out: &mut Vec<u8>) {
    request::write_command(out, &["CLUSTER", "INFO"]);
    request::write_command(out, &["CLUSTER", "SLOTS"]);
}

fn refused(expected: &'static str, got: &[u8]) -> Error {
    let got = String::from_utf8_lossy(got).into_owned();
    Error::Server(wire::Error::Malformed { protocol: "redis", offset: 0, expected, got })
}

#[cfg(test)]
mod tests;
