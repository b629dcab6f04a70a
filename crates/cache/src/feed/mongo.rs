//! Reports of a MongoDB origin, by a change stream of its whole deployment.
//!
//! After `hello` (and a login) the feed opens `$changeStream {allChangesForCluster: true}` and asks
//! for batch after batch with `getMore`. Each event drops what it names.
//!
//! **Confirmation.** A stream that is silent may be complete or late: it reports only what a
//! majority of the replica set has. The feed therefore asks by `hello` for the position of the
//! origin, and compares it with that of the stream, its `postBatchResumeToken` ([`marks`]). Once
//! the stream has reached the origin's position, everything written before the question has been
//! reported. Entries are stored and served only while the last such confirmation is younger than
//! `silence_max`. An origin that does not state both positions gets no feed.
//!
//! **Losses.** The position is kept. If the next connection reaches the same process and the stream
//! resumes there, nothing was missed: what was stored before is served again once the stream is
//! confirmed. Otherwise – history lost (code 286), an invalidated stream, another process or
//! election, an error that is not known to be temporary – all of it is dropped.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use wire::mongo::{
    bson::{Document, Writer},
    change, frame, message,
    response::Response,
    scram,
};

use self::{
    failure::{Ended, failed, refused},
    marks::Marks,
};
use super::{Config, SILENT, dropped};
use crate::{
    Error, Output,
    filter::{
        Scratch,
        mongo::{Mongo, Settings},
    },
    input::Input,
    key::{self, Scope},
    lease::Outcome,
    storage::{Storage, Write},
    watch::mongo_identity,
};

mod commands;
mod failure;
mod marks;

/// The feed of one MongoDB origin.
#[derive(Debug)]
pub struct Feed {
    settings: Arc<Settings>,
    config: Config,
    /// Determines the scopes of events.
    filter: Mongo,
    scratch: Scratch,
    input: Input,
    output: Output,
    /// Everything of the origin, closed while the feed is not confirmed.
    closed: Option<Write>,
    /// Something may not have been reported: all entries are dropped before the next is served.
    missed: bool,
    login: Option<scram::Client>,
    /// The replies that must come, in their order.
    awaited: VecDeque<Step>,
    requests: i32,
    origin: Origin,
    cursor: Cursor,
    marks: Marks,
    asked_at: Option<Duration>,
    heard_at: Duration,
}

/// What a reply answers.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The first `hello`.
    Greeting,
    /// `saslStart`, `saslContinue`.
    Login,
    /// The `aggregate` that opens the stream.
    Open,
    /// A `hello` sent at this time, for the position of the origin.
    Position(Duration),
    /// A `getMore`.
    Batch,
}

/// What the origin reported about itself.
#[derive(Debug, Default)]
struct Origin {
    /// Process and election.
    identity: Option<Vec<u8>>,
    sharded: bool,
    /// Reports index and collection commands as well.
    expands: bool,
}

/// The change stream.
#[derive(Debug, Default)]
struct Cursor {
    id: i64,
    collection: String,
    /// Where to resume, a resume token; none if the stream must begin anew.
    token: Option<Vec<u8>>,
    /// The token of the last event.
    event: Option<Vec<u8>>,
}

/// MongoDB 6.0, the first that knows `showExpandedEvents`.
const EXPANDED_WIRE_VERSION: i64 = 17;

impl Feed {
    /// A feed that is not connected: nothing of the origin is stored until it is.
    pub fn new<S: Storage>(settings: Arc<Settings>, config: Config, storage: &mut S) -> Self {
        let mut feed = Self {
            filter: Mongo::new(Arc::clone(&settings)),
            settings,
            config,
            scratch: Scratch::new(),
            input: Input::default(),
            output: Output::default(),
            closed: None,
            missed: true,
            login: None,
            awaited: VecDeque::new(),
            requests: 0,
            origin: Origin::default(),
            cursor: Cursor::default(),
            marks: Marks::default(),
            asked_at: None,
            heard_at: Duration::ZERO,
        };
        feed.close(storage);
        feed
    }

    /// A new connection to the origin was made. `nonce` is random and used once.
    pub fn connected(&mut self, nonce: u128, now: Duration) {
        self.login = self.config.login.as_ref().map(|(user, password)| {
            scram::Client::new(
                user.as_deref().unwrap_or_default(),
                password,
                format!("{nonce:032x}"),
            )
        });
        self.heard_at = now;
        self.ask(Step::Greeting, commands::hello);
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
        loop {
            let rest = all.waiting().get(taken..).unwrap_or_default();
            match self.take_reply(rest, storage, now) {
                Ok(Some(length)) => taken += length,
                Ok(None) => break,
                Err(ended) => {
                    if !ended.resumable {
                        self.forget();
                    }
                    return Err(Error::Server(ended.error));
                }
            }
        }
        self.input.put_back(all, taken);
        self.judge(storage, now);
        Ok(())
    }

    /// What is to be written to the origin.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// When [`Self::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        let confirmed_at = self.marks.confirmed_at().filter(|_| self.is_open());
        self.heard_at.min(confirmed_at.unwrap_or(self.heard_at)) + self.config.silence_max
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
        let is_silent = now >= self.heard_at + self.config.silence_max;
        if is_silent { Err(SILENT) } else { Ok(()) }
    }

    /// The connection is lost, and with it any further reports.
    pub fn lost<S: Storage>(&mut self, storage: &mut S) {
        self.input = Input::default();
        self.output.clear();
        self.login = None;
        self.awaited.clear();
        self.asked_at = None;
        self.marks = Marks::default();
        self.missed |= self.cursor.token.is_none();
        self.close(storage);
    }

    /// Whether the feed is established and confirmed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Everything that is stored may have been changed without a report.
    fn forget(&mut self) {
        (self.cursor.token, self.missed) = (None, true);
    }

    fn close<S: Storage>(&mut self, storage: &mut S) {
        let scope = self.everything();
        self.closed.get_or_insert_with(|| storage.write_sent(scope.into()));
    }

    /// Opens or closes the origin, by the age of the last confirmation.
    fn judge<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        let confirmed_at = self.marks.confirmed_at();
        if confirmed_at.is_none_or(|at| now >= at + self.config.silence_max) {
            return self.close(storage);
        }
        if let Some(write) = self.closed.take() {
            // Earlier entries are valid if everything since has been reported.
            let missed = std::mem::take(&mut self.missed);
            let outcome = if missed { Outcome::Applied } else { Outcome::Refused };
            storage.write_settled(write, outcome);
        }
    }

    fn everything(&self) -> Scope<'static> {
        Scope::Origin(key::origin(self.settings.secret, &self.settings.origin))
    }

    /// Sends a command, and expects its reply.
    fn ask(&mut self, step: Step, write: impl FnOnce(&mut Writer<'_>)) {
        self.requests = self.requests.wrapping_add(1);
        let mut body = Vec::new();
        Writer::write(&mut body, |body| {
            write(body);
            body.str("$db", "admin");
        });
        message::write(self.output.buffer(), self.requests, 0, &body);
        self.awaited.push_back(step);
    }

    /// Takes the reply at the start of `bytes`; its length, once it is whole.
    fn take_reply<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<Option<usize>, Ended> {
        let Some((frame, length)) = frame::decode(bytes, &self.settings.limits)? else {
            return Ok(None);
        };
        let behind = i32::try_from(self.awaited.len()).unwrap_or(i32::MAX) - 1;
        let step = self.awaited.pop_front();
        let reply = Response::parse(&frame)?;
        let (Some(step), Some(reply)) = (step, reply) else {
            return Err(refused("a reply to a request of the feed", "another frame").into());
        };
        if reply.header.response_to != self.requests.wrapping_sub(behind) {
            return Err(refused("replies in the order of their requests", "another order").into());
        }
        if !reply.ok {
            return Err(failed(step, &reply));
        }
        match step {
            Step::Greeting => self.greeted(&reply)?,
            Step::Login => self.logged_in(&reply)?,
            Step::Open => {
                self.take_batch(&reply, storage)?;
                self.go_on(now);
            }
            Step::Position(asked_at) => self.positioned(&reply, asked_at, storage)?,
            Step::Batch => {
                let position = self.take_batch(&reply, storage)?;
                self.marks.reach(position);
                self.go_on(now);
            }
        }
        Ok(Some(length))
    }

    fn greeted(&mut self, hello: &Response<'_>) -> Result<(), Ended> {
        let field = |name| hello.body.element(name);
        self.origin.sharded = field("msg")?.and_then(|msg| msg.str()) == Some("isdbgrid");
        if !self.origin.sharded && field("setName")?.is_none() {
            let expected =
                "a member of a replica set, or mongos, since no other server reports changes";
            let got = "a standalone server; remove `feed` to cache with the bound `ttl`";
            return Err(refused(expected, got).into());
        }
        let version = field("maxWireVersion")?.and_then(|version| version.integer());
        self.origin.expands = version.is_some_and(|version| version >= EXPANDED_WIRE_VERSION);
        let identity = mongo_identity(&hello.body);
        if identity.is_none() || identity != self.origin.identity {
            // A token of another history may resume without reporting the differences.
            self.forget();
        }
        self.origin.identity = identity;
        match self.login.as_ref().map(scram::Client::first) {
            Some(first) => self.ask(Step::Login, |body| commands::sasl_start(&first, body)),
            None => self.open(),
        }
        Ok(())
    }

    fn logged_in(&mut self, reply: &Response<'_>) -> Result<(), Ended> {
        let field = |name| reply.body.element(name);
        let payload = field("payload")?.and_then(|payload| payload.binary());
        let payload = payload.map(|(_, bytes)| bytes).unwrap_or_default();
        let conversation = field("conversationId")?.and_then(|id| id.i32()).unwrap_or_default();
        let done = field("done")?.is_some_and(|done| done.is_true());
        let Some(login) = &mut self.login else { return Ok(()) };
        let answer = match login.is_answered() {
            false => login.answer(payload)?,
            true => {
                if !payload.is_empty() {
                    login.verify(payload)?;
                }
                String::new()
            }
        };
        if done && login.is_verified() {
            self.login = None;
            self.open();
        } else if done {
            return Err(refused("a server that proves to know the password", "no proof").into());
        } else {
            self.ask(Step::Login, |body| commands::sasl_continue(conversation, &answer, body));
        }
        Ok(())
    }

    fn open(&mut self) {
        let token = self.cursor.token.take();
        let resumed = token.as_deref().and_then(|token| Document::parse(token).ok());
        let expands = self.origin.expands;
        self.ask(Step::Open, |body| commands::open(resumed, expands, body));
        self.cursor.token = token;
    }

    /// Requests the next batch, and regularly the position of the origin.
    fn go_on(&mut self, now: Duration) {
        let pause = self.config.ping_interval / MARKS_PER_PING;
        if self.asked_at.is_none_or(|at| now >= at + pause) && self.marks.has_room() {
            self.asked_at = Some(now);
            self.ask(Step::Position(now), commands::hello);
        }
        let (id, collection) = (self.cursor.id, std::mem::take(&mut self.cursor.collection));
        let patience = self.config.ping_interval;
        self.ask(Step::Batch, |body| commands::get_more(id, &collection, patience, body));
        self.cursor.collection = collection;
    }

    /// Notes the position of the origin at `asked_at`.
    fn positioned<S: Storage>(
        &mut self,
        hello: &Response<'_>,
        asked_at: Duration,
        storage: &mut S,
    ) -> Result<(), Ended> {
        let identity = mongo_identity(&hello.body);
        if identity != self.origin.identity {
            // An election may have undone writes that were read; no event reports this.
            self.origin.identity = identity;
            dropped(self.everything(), storage);
        }
        let time = marks::reached(hello, self.origin.sharded)?;
        // mongos learns the time of each shard with every reply to the stream's own questions.
        let behind = if self.origin.sharded { self.config.ping_interval } else { Duration::ZERO };
        self.marks.note(time, asked_at.saturating_sub(behind));
        Ok(())
    }

    /// Takes the events of a batch. Returns the time up to which everything was reported.
    fn take_batch<S: Storage>(
        &mut self,
        reply: &Response<'_>,
        storage: &mut S,
    ) -> Result<u64, Ended> {
        let cursor = reply.cursor.ok_or_else(|| refused("a cursor", "none"))?;
        let mut events = 0;
        for event in cursor.documents() {
            let event = event?;
            let (scopes, goes_on) = self.filter.reported(&event, &mut self.scratch)?;
            for scope in scopes {
                dropped(scope, storage);
            }
            self.scratch.clear();
            if !goes_on {
                return Err(refused("a change stream that goes on", "an `invalidate` event").into());
            }
            let id = event.element("_id")?.and_then(|id| id.document());
            self.cursor.event = id.map(|id| id.bytes().to_vec());
            events += 1;
        }
        let body = reply.body.element("cursor")?.and_then(|cursor| cursor.document());
        let token = marks::within(body, "postBatchResumeToken")?;
        let token = token.and_then(|token| token.document()).ok_or_else(|| {
            refused("the position of the stream (`postBatchResumeToken`, MongoDB 4.0.7)", "none")
        })?;
        if cursor.id == 0 || cursor.partial_results {
            return Err(refused("a change stream that goes on", "its end").into());
        }
        self.cursor.id = cursor.id;
        self.cursor.collection = collection(cursor.namespace).to_owned();
        self.cursor.token = Some(token.bytes().to_vec());
        let time = change::token_time(&token)?;
        // All events of a transaction have the same time, and any of them may be the last of a
        // batch. An empty batch of a single server means that there are no more; several servers
        // may still have some.
        let is_event = self.cursor.event.as_deref() == Some(token.bytes());
        let may_have_more = is_event && (events > 0 || self.origin.sharded);
        Ok(if may_have_more { time.saturating_sub(1) } else { time })
    }
}

/// Maximum number of requests for the position of the origin per `ping_interval`.
const MARKS_PER_PING: u32 = 4;

/// The collection of `database.collection`.
fn collection(namespace: &str) -> &str {
    namespace.split_once('.').map_or(namespace, |(_, collection)| collection)
}

#[cfg(test)]
mod tests;
