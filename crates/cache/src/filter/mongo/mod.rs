//! MongoDB support of the cache. What is cached: `docs/protocols/mongodb.md`.

use std::{borrow::Cow, sync::Arc, time::Duration};

use wire::{
    Error, Result,
    detect::{self, Protocol},
    mongo::{
        bson::Writer,
        frame::{self, Body},
        message,
        request::Request as Command,
        response,
    },
    resp::request::Passed,
};

use self::{
    frames::{canonical, flags, header, inflate, whole},
    large::Inflated,
};
use crate::{
    filter::{Combines, Cut, Filter, Kept, Probed, Read, Request, Scratch, Verdict},
    key::{self, Namespace, Scope},
    lease::Character,
    principal::{Finding, Standing},
    rules::{LiveRules, Seen},
    stats::NotFilled,
};

mod check;
mod client;
mod described;
mod find;
mod frames;
mod greeting;
mod identity;
mod large;
mod readable;
mod replies;
mod server;
mod settings;
mod stated;
mod tag;
mod transaction;

pub use check::Access;
pub use settings::{Advertised, Settings, UniqueField};
pub use tag::Tag;
pub use transaction::Transactions;

/// The filter of one MongoDB connection.
#[derive(Debug)]
pub struct Mongo {
    settings: Arc<Settings>,
    rules: Seen,
    /// Identifies the origin in scopes.
    origin: u64,
    identity: identity::Identity,
    /// The first bytes of the client were MongoDB's.
    recognised: bool,
    /// Remaining bytes of a request that is too long to be held.
    request_left: usize,
    /// Bytes of the current reply that are still to come.
    reply_left: usize,
    /// The current reply answers a request.
    reply_answers: bool,
    /// The oldest request is answered by a stream of replies that is not over.
    reply_continues: bool,
    /// The last reply of that stream.
    reply_id: i32,
    /// Number of our next frame.
    next_id: i32,
    /// The origin says in its reply if a write was executed before (`retriedStmtIds`).
    tells_retries: bool,
    /// What the user may read, if the origin reports it.
    readable: readable::Readable,
}

/// One message of the client as received, and inflated if it was compressed.
#[derive(Debug)]
pub struct Message<'a> {
    original: &'a [u8],
    inflated: Option<Inflated>,
}

impl Mongo {
    /// The filter of a fresh connection.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            origin: key::origin(settings.secret, &settings.origin),
            rules: Seen::of(&settings.namespaces),
            settings,
            identity: identity::Identity::default(),
            recognised: false,
            request_left: 0,
            reply_left: 0,
            reply_answers: true,
            reply_continues: false,
            reply_id: 0,
            next_id: 1,
            tells_retries: false,
            readable: readable::Readable::default(),
        }
    }

    fn namespace(&self, database: &str, collection: &str) -> Namespace {
        Namespace::new(
            self.settings.secret,
            &self.settings.origin,
            database.as_bytes(),
            collection.as_bytes(),
        )
    }

    /// The user of the connection, if known.
    fn user(&self) -> &[u8] {
        self.identity.name().unwrap_or_default()
    }

    fn next_id(&mut self) -> i32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

impl Filter for Mongo {
    type Tag = Tag;

    // Drivers watch servers by connections that never read.
    const CHECKS_EARLY: bool = false;
    const COMBINES: Combines = Combines::InOrder;

    fn message<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Message<'a>, usize)>> {
        if !self.recognised {
            if !detect::expect(Protocol::Mongo, bytes)? {
                return Ok(None);
            }
            self.recognised = true;
        }
        let Some((frame, length)) = frame::decode(bytes, &self.settings.limits)? else {
            return Ok(None);
        };
        let inflated = match frame.body() {
            Body::Compressed(compressed) => Some(Inflated::of(compressed, &self.settings.limits)?),
            _ => None,
        };
        Ok(Some((Message { original: frame.bytes(), inflated }, length)))
    }

    fn begin<'m>(
        &mut self,
        bytes: &'m [u8],
        _: &'m mut Scratch,
        standing: &mut Standing,
        _: Duration,
    ) -> Result<Option<(Request<'m, Tag>, usize)>> {
        let Some(length) = frame::frame_bytes(bytes, &self.settings.limits)? else {
            return Ok(None);
        };
        let taken = bytes.len().min(length);
        self.request_left = length - taken;
        Ok(Some((self.name_incoming(bytes, standing), taken)))
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<Passed> {
        let passed = bytes.len().min(self.request_left);
        self.request_left -= passed;
        Ok(Passed { bytes: passed, ends: self.request_left == 0 })
    }

    fn overloaded(&mut self, _: &mut Vec<u8>) {
        // A reply names its request, and no request is known to be waiting.
    }

    fn request<'m>(
        &mut self,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        _: Duration,
    ) -> Result<Request<'m, Tag>> {
        self.rules.refresh(&self.settings.namespaces);
        let bytes = match &message.inflated {
            None => message.original,
            Some(Inflated::Whole(inflated)) => inflated,
            Some(Inflated::Beginning(beginning)) => {
                return Ok(self.name_beginning(beginning, standing));
            }
        };
        let frame = whole(bytes, &self.settings.limits)?;
        match Command::parse(&frame)? {
            Some(command) => self.name_flow(&command, scratch, standing),
            None => Ok(client::opaque(&frame, self.origin, standing.login())),
        }
    }

    fn rules(&self) -> &LiveRules {
        &self.settings.namespaces
    }

    fn cut(&mut self, bytes: &[u8], tag: Option<&Tag>) -> Result<Cut> {
        if self.reply_left == 0 {
            match self.begin_reply(bytes, tag)? {
                Some(length) => self.reply_left = length,
                None => return Ok(Cut { bytes: 0, ends: false, answers: true, continues: false }),
            }
        }
        let part = self.reply_left.min(bytes.len());
        self.reply_left -= part;
        let ends = self.reply_left == 0;
        let answers = self.reply_answers;
        Ok(Cut { bytes: part, ends, answers, continues: answers && self.reply_continues })
    }

    fn admit(
        &self,
        tag: &Tag,
        key: &[u8],
        reply: &[u8],
        packed: &mut Vec<u8>,
    ) -> Result<(), NotFilled> {
        let field = match tag.field {
            None => "_id",
            Some(index) => {
                let unique = self.settings.unique_fields.get(usize::from(index));
                unique.map(|unique| unique.field.as_str()).ok_or(NotFilled::Incomplete)?
            }
        };
        server::admit(reply, field, key, &self.settings.limits, packed)
    }

    fn comparable<'p>(&self, _: &[u8], packed: &'p [u8]) -> Cow<'p, [u8]> {
        Cow::Borrowed(server::found(packed).unwrap_or(packed))
    }

    fn answer(&mut self, tag: &Tag, _: &[u8], packed: &[u8], out: &mut Vec<u8>) {
        let request_id = self.next_id();
        if tag.legacy {
            response::legacy_reply(out, request_id, tag.request_id, packed);
        } else {
            response::reply(out, request_id, tag.request_id, packed);
        }
    }

    /// Asks the origin once for each collection whether it is a view or has a collation: a write to
    /// the collection of a view would not be recognized as a write to the view.
    fn probe(
        &mut self,
        read: &Read<'_>,
        character: Character,
        out: &mut Vec<u8>,
    ) -> Result<Option<Tag>, NotFilled> {
        Ok(self.probe_stated(read.place, character, out))
    }

    fn probe_stated(
        &mut self,
        (database, collection): (&str, &str),
        character: Character,
        out: &mut Vec<u8>,
    ) -> Option<Tag> {
        if character == Character::Plain {
            return None;
        }
        let mut body = Vec::new();
        Writer::write(&mut body, |body| {
            body.i32("listCollections", 1);
            body.nested("filter", |filter| filter.str("name", collection));
            body.str("$db", database);
        });
        let request_id = self.next_id();
        message::write(out, request_id, 0, &body);
        Some(Tag { request_id, ..Tag::default() })
    }

    fn probed(&mut self, reply: &[u8], _: Kept<'_>, _: Duration) -> Result<Probed, NotFilled> {
        server::character(reply, &self.settings.limits)
            .map(|character| Probed { expires_at: None, character })
    }

    fn accepts(&self, tag: &Tag, reply: &[u8]) -> bool {
        server::read(reply, &self.settings.limits, |response| {
            let written = || server::has_written(&response.body);
            response.ok
                && !response.write_errors
                && !response.write_concern_error
                && tag.stated.is_none_or(|stated| written() == Some(stated))
        })
        .unwrap_or(false)
    }

    /// Does not count a failure of one of several writes as a refusal: such a reply has `ok: 1`.
    fn verdict(&mut self, _: &Tag, reply: &[u8]) -> Verdict {
        // Unauthorized, AuthenticationFailed, CommandNotFound, UnsupportedOpQueryCommand.
        const REFUSALS: [i64; 4] = [13, 18, 59, 352];
        let refused = server::read(reply, &self.settings.limits, |response| {
            !response.ok && REFUSALS.contains(&response.failure.code)
        });
        if refused == Some(true) { Verdict::Refused } else { Verdict::Applied }
    }

    /// A server handles the messages of a connection one after another.
    fn fence(&mut self, out: &mut Vec<u8>) -> Option<Tag> {
        let mut body = Vec::new();
        Writer::write(&mut body, |body| {
            body.i32("ping", 1);
            body.str("$db", "admin");
        });
        let request_id = self.next_id();
        message::write(out, request_id, 0, &body);
        Some(Tag { request_id, ..Tag::default() })
    }

    #[inline]
    fn keep_answering(&self, _: &mut Vec<u8>) {
        unreachable!("no MongoDB request changes what is answered behind it")
    }

    fn check(&mut self, _: bool, out: &mut Vec<u8>) -> Option<Tag> {
        self.ask_identity(out)
    }

    fn checked<'r>(&'r mut self, tag: &Tag, reply: &'r [u8]) -> Finding<'r> {
        let Some(asked) = tag.asked else { return Finding::LoggedIn };
        self.note_readable(asked, reply);
        self.identity_answered(asked, reply)
    }

    fn may_read(&self, (database, collection): (&str, &str)) -> bool {
        self.readable.includes(database, collection)
    }

    fn refuses(&self, _: &Tag, reply: &[u8]) -> bool {
        server::read(reply, &self.settings.limits, |response| {
            check::is_refusal(&response.body, response.ok)
        })
        .unwrap_or(false)
    }

    fn everything(&self) -> Scope<'static> {
        Scope::Origin(self.origin)
    }

    fn observe(&mut self, tag: &Tag, reply: &[u8], standing: &mut Standing) {
        self.settle(tag, reply, false, standing);
    }

    fn rewrite(
        &mut self,
        tag: &Tag,
        reply: &[u8],
        out: &mut Vec<u8>,
        standing: &mut Standing,
        now: Duration,
    ) {
        self.settle(tag, reply, true, standing);
        self.tells_retries = server::tells_retries(reply, &self.settings.limits);
        let start = out.len();
        if self.readdress(reply, out).is_err() {
            out.extend_from_slice(reply);
            return;
        }
        // With the rewritten addresses: a client that is greeted from here needs these.
        let Some(form) = tag.greets else { return };
        let greetings = Arc::clone(&self.settings.greetings);
        server::read(out.get(start..).unwrap_or_default(), &self.settings.limits, |greeting| {
            if let Some(lasting) = greeting::lasting(&greeting.body).filter(|_| greeting.ok) {
                greetings.remember(form, lasting, now);
            }
        });
    }

    fn request_missing<'a>(
        &mut self,
        _: &Tag,
        _: &[u8],
        _: impl Iterator<Item = &'a [u8]> + Clone,
        _: &mut Vec<u8>,
    ) {
        unreachable!("no MongoDB request reads several keys side by side")
    }

    fn answer_many(&mut self, _: &Tag, _: usize, _: &mut Vec<u8>) {
        unreachable!("no MongoDB request reads several keys side by side")
    }

    fn split<'a, 'k>(
        &self,
        _: &Tag,
        _: impl Iterator<Item = &'k [u8]>,
        _: &'a [u8],
    ) -> Option<Vec<Cow<'a, [u8]>>> {
        None
    }

    fn unavailable(&mut self, tag: &Tag, why: &str, out: &mut Vec<u8>, now: Duration) {
        let (greetings, age_max) = (&self.settings.greetings, self.rules.ttl);
        let greeting = tag.greets.filter(|_| self.identity.is_anonymous());
        if let Some(body) = greeting.and_then(|form| greetings.recall(form, age_max, now)) {
            return self.answer(tag, b"", &body, out);
        }
        // HostUnreachable: drivers may retry a read elsewhere, and keep the connection.
        const HOST_UNREACHABLE: i32 = 6;
        let mut body = Vec::new();
        Writer::write(&mut body, |body| {
            body.f64("ok", 0.0);
            body.str("errmsg", &format!("enroute: {why}"));
            body.i32("code", HOST_UNREACHABLE);
            body.str("codeName", "HostUnreachable");
        });
        self.answer(tag, b"", &body, out);
    }

    fn refuse(&mut self, error: &Error, out: &mut Vec<u8>) {
        // A server closes the connection without an answer, and so does the cache, except to a
        // client that uses another protocol.
        if let Error::Foreign { found, first, .. } = error {
            detect::refuse(*found, first, &error.to_string(), out);
        }
    }

    fn waits(&self, tag: &Tag) -> bool {
        tag.waits
    }

    fn is_stateless(&self) -> bool {
        self.identity.is_anonymous()
    }
}
