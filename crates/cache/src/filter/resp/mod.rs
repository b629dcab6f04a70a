//! Redis and Valkey support of the cache. What is cached: `docs/protocols/redis.md`.

use std::{borrow::Cow, collections::VecDeque, sync::Arc, time::Duration};

use wire::{
    Error, Result,
    resp::{
        Passing, Request as Message, Scanner, Version,
        request::{self, Passed},
        response,
    },
};

use crate::{
    filter::{
        Ahead, Combines, Cut, Filter, Kept, OVERLOADED, Probed, Read, Request, Scratch, Verdict,
    },
    key::{Namespace, Scope},
    lease::Character,
    principal::{Finding, Login, Standing},
    rules::{LiveRules, Seen},
    stats::NotFilled,
};

mod absence;
mod check;
mod client;
mod cluster;
mod described;
mod large;
mod message;
mod refusal;
mod server;
mod settings;
mod shebang;
mod state;
mod stated;
mod tag;
mod tracked;

pub use check::{Access, Asked};
pub(crate) use cluster::Owner;
pub use cluster::{Addresses, Topology};
use message::{begins_confirmation, confirms, first_key, has_line, is_queued, whole};
pub(crate) use settings::namespace;
pub use settings::{Databases, Expiry, FEED_DATABASES, Node, Scripts, Settings};
pub use tag::Tag;
pub use tracked::Tracked;
pub(crate) use tracked::{Mark, Wish};

/// The filter of one Redis connection.
#[derive(Debug)]
pub struct Resp {
    settings: Arc<Settings>,
    rules: Seen,
    decoder: request::Decoder,
    /// The rest of a request that is too long to be held.
    passing: Option<Passing>,
    scanner: Scanner,
    namespace: Namespace,
    database: u32,
    /// The user that logged in last; `None` is the default user.
    user: Option<Box<[u8]>>,
    version: Version,
    /// Number of outstanding requests that will change database, user or protocol.
    unsettled: u32,
    /// The databases that they select, in order; `None` if unknown.
    selecting: VecDeque<Option<Namespace>>,
    /// State was changed in a way that cannot be followed; nothing is cached after that.
    lost_track: bool,
    /// Between MULTI and EXEC, as sent by the client.
    in_transaction: bool,
    /// Between MULTI and EXEC, according to the origin's replies: the origin queues commands.
    queues: bool,
    /// Number of outstanding requests that begin a transaction, if the origin accepts them.
    beginnings: u32,
    /// Number of outstanding requests that end a transaction, if the origin accepts them.
    endings: u32,
    watched: bool,
    tracked: bool,
    subscribed: bool,
    replica_reads: bool,
    /// The next command follows an ASK redirection.
    asking: bool,
    /// The next command is the one that CLIENT CACHING applies to.
    caching: bool,
    /// The cache must not insert a command of its own before the current command.
    between: bool,
    /// The scanner is inside a reply.
    mid_reply: bool,
    /// The user may not run PTTL.
    blind: bool,
    /// Digest of the user's rights, if the origin has reported them and they are not all rights.
    rights: Option<u128>,
}

impl Resp {
    /// The filter of a fresh connection.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            decoder: request::Decoder::default(),
            passing: None,
            scanner: Scanner::passing(&settings.limits),
            namespace: namespace(&settings, 0),
            database: 0,
            user: None,
            version: Version::Resp2,
            unsettled: 0,
            selecting: VecDeque::new(),
            lost_track: false,
            in_transaction: false,
            queues: false,
            beginnings: 0,
            endings: 0,
            watched: false,
            tracked: false,
            subscribed: false,
            replica_reads: false,
            asking: false,
            caching: false,
            between: false,
            mid_reply: false,
            blind: false,
            rights: None,
            rules: Seen::of(&settings.keys),
            settings,
        }
    }
}

impl Filter for Resp {
    type Tag = Tag;

    const CHECKS_EARLY: bool = true;
    const COMBINES: Combines = Combines::InOrder;

    #[inline]
    fn message<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Message<'a>, usize)>> {
        self.decoder.decode(bytes, &self.settings.limits)
    }

    fn look_ahead(&self, bytes: &[u8]) -> Ahead {
        let origin = self.namespace.origin;
        Ahead::of(origin, bytes, |rest| first_key(rest, self.namespace, &self.settings.limits))
    }

    fn begin<'m>(
        &mut self,
        bytes: &'m [u8],
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        _: Duration,
    ) -> Result<Option<(Request<'m, Tag>, usize)>> {
        Ok(self.name_beginning(bytes, scratch, standing))
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<Passed> {
        let Some(passing) = &mut self.passing else { return Ok(Passed { bytes: 0, ends: true }) };
        let passed = passing.advance(bytes, &self.settings.limits)?;
        if passed.ends {
            self.passing = None;
        }
        Ok(passed)
    }

    fn overloaded(&mut self, out: &mut Vec<u8>) {
        response::write_error(out, format!("ERR enroute: {OVERLOADED}").as_bytes());
    }

    #[inline]
    fn request<'m>(
        &mut self,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        _: Duration,
    ) -> Result<Request<'m, Tag>> {
        self.rules.refresh(&self.settings.keys);
        self.name_flow(message, scratch, standing)
    }

    fn rules(&self) -> &LiveRules {
        &self.settings.keys
    }

    fn cut(&mut self, bytes: &[u8], tag: Option<&Tag>) -> Result<Cut> {
        let incomplete = || {
            self.may_be_redirection(bytes) && !has_line(bytes)
                || begins_confirmation(tag, bytes, &self.settings.limits)
        };
        if !self.mid_reply && incomplete() {
            return Ok(Cut { bytes: 0, ends: false, answers: true, continues: false });
        }
        let progress = self.scanner.advance(bytes)?;
        self.mid_reply = !progress.complete;
        Ok(Cut {
            bytes: progress.consumed,
            ends: progress.complete,
            answers: progress.kind != Some(wire::resp::Kind::Push),
            continues: false,
        })
    }

    fn admit(
        &self,
        _: &Tag,
        _: &[u8],
        reply: &[u8],
        packed: &mut Vec<u8>,
    ) -> Result<(), NotFilled> {
        let reply = whole(reply, &self.settings.limits).ok_or(NotFilled::Incomplete)?;
        if reply.is_error() {
            return Err(NotFilled::ErrorReply);
        }
        if is_queued(&reply) {
            return Err(NotFilled::Incomplete);
        }
        server::pack(&reply, packed);
        Ok(())
    }

    #[inline]
    fn answer(&mut self, _: &Tag, _: &[u8], packed: &[u8], out: &mut Vec<u8>) {
        server::unpack(packed, self.version, out);
    }

    fn comparable<'p>(&self, variant: &[u8], packed: &'p [u8]) -> Cow<'p, [u8]> {
        server::ordered(variant, packed)
    }

    /// Queries the expiry with every fill: PTTL after the read, if the user may run it.
    fn probe(
        &mut self,
        read: &Read<'_>,
        _: Character,
        out: &mut Vec<u8>,
    ) -> Result<Option<Tag>, NotFilled> {
        if !self.settings.tracked.covers(self.database, read.key.bytes, self.settings.secret) {
            return Err(NotFilled::Untracked);
        }
        if self.is_blind() {
            return match self.settings.unknown_expiry {
                Expiry::NotStored => Err(NotFilled::Expiry),
                Expiry::Ttl => Ok(None),
            };
        }
        request::write_command(out, &[b"PTTL".as_slice(), read.key.bytes]);
        Ok(Some(Tag::Probe))
    }

    fn probed(
        &mut self,
        reply: &[u8],
        kept: Kept<'_>,
        asked_at: Duration,
    ) -> Result<Probed, NotFilled> {
        let reply = whole(reply, &self.settings.limits);
        self.note_if_refused(reply.as_ref());
        let is_optional = self.blind && self.settings.unknown_expiry == Expiry::Ttl;
        let left = reply.and_then(|reply| reply.integer());
        let expires_at = absence::expires_at(left, kept, asked_at, is_optional)?;
        Ok(Probed { expires_at, character: Character::Plain })
    }

    fn accepts(&self, _: &Tag, reply: &[u8]) -> bool {
        whole(reply, &self.settings.limits)
            .is_some_and(|reply| !reply.is_error() && !is_queued(&reply))
    }

    fn verdict(&mut self, tag: &Tag, reply: &[u8]) -> Verdict {
        let verdict = refusal::verdict(tag, reply, self.queues);
        if matches!(tag, Tag::Exec | Tag::Discard | Tag::Reset) {
            self.endings -= u32::from(!matches!(tag, Tag::Reset));
            self.queues &= verdict == Verdict::Unclear;
        }
        verdict
    }

    fn confirms(&self, tag: &Tag, message: &[u8]) -> bool {
        matches!(tag, Tag::Subscribe(name) if confirms(name, message, &self.settings.limits))
    }

    /// The same command with nothing to run.
    fn proof(&mut self, tag: &Tag, out: &mut Vec<u8>) -> Option<Tag> {
        let Tag::Script { doubted: Some(command) } = tag else { return None };
        request::write_command(out, &[*command, "", "0"]);
        Some(Tag::Proof)
    }

    fn keep_answering(&self, out: &mut Vec<u8>) {
        request::write_command(out, &["CLIENT", "REPLY", "ON"]);
    }

    fn check(&mut self, forced: bool, out: &mut Vec<u8>) -> Option<Tag> {
        self.ask_identity(forced, out)
    }

    fn checked<'r>(&'r mut self, tag: &Tag, reply: &'r [u8]) -> Finding<'r> {
        match tag {
            Tag::Check(asked) => self.identity_answered(*asked, reply),
            _ => Finding::LoggedIn,
        }
    }

    fn refuses(&self, _: &Tag, reply: &[u8]) -> bool {
        whole(reply, &self.settings.limits).is_some_and(|reply| check::is_refusal(&reply))
    }

    fn everything(&self) -> Scope<'static> {
        self.namespace.whole_origin()
    }

    fn observe(&mut self, tag: &Tag, reply: &[u8], standing: &mut Standing) {
        if matches!(tag, Tag::Multi) {
            self.beginnings = self.beginnings.saturating_sub(1);
            self.queues |= self.accepts(tag, reply);
            self.in_transaction &= self.queues || self.beginnings > 0;
            return;
        }
        if matches!(tag, Tag::Restore) {
            self.lost_track |= !self.accepts(tag, reply);
            return;
        }
        if !matches!(tag, Tag::Select(_) | Tag::Identify { .. } | Tag::Reset) {
            return;
        }
        self.unsettled = self.unsettled.saturating_sub(1);
        if matches!(tag, Tag::Select(_) | Tag::Reset) {
            self.selecting.pop_front();
        }
        // A transaction that was assumed to have ended has queued it: it takes effect at EXEC, or
        // never.
        self.lost_track |=
            whole(reply, &self.settings.limits).is_some_and(|reply| is_queued(&reply));
        if self.accepts(tag, reply) {
            self.follow(tag);
            match tag {
                Tag::Identify { user: Some(_), .. } => standing.begin_again(Login::Accepted),
                Tag::Reset => standing.begin_again(Login::Unknown),
                _ => {}
            }
        } else if matches!(tag, Tag::Reset) {
            // The effects of a RESET were assumed when it was sent.
            self.lost_track = true;
        }
    }

    fn rewrite(
        &mut self,
        tag: &Tag,
        reply: &[u8],
        out: &mut Vec<u8>,
        _: &mut Standing,
        _: Duration,
    ) {
        match (tag, whole(reply, &self.settings.limits)) {
            (Tag::Topology(topology), Some(reply)) => {
                self.settings.addresses.rewrite(*topology, &reply, out);
            }
            _ => out.extend_from_slice(reply),
        }
    }

    fn remember(&self, tag: &Tag, reply: &[u8], now: Duration) {
        if let Tag::Identify { greets: Some(form), .. } = tag
            && self.accepts(tag, reply)
        {
            self.settings.greetings.remember(*form, reply.to_vec(), now);
        }
    }

    fn restore(&mut self, out: &mut Vec<u8>) -> Option<Tag> {
        if self.version == Version::Resp2 {
            return None;
        }
        request::write_command(out, &[b"HELLO".as_slice(), b"3"]);
        Some(Tag::Restore)
    }

    fn redirect(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.may_be_redirection(message)
            .then(|| self.settings.addresses.redirect(message))
            .flatten()
    }

    fn request_missing<'a>(
        &mut self,
        _: &Tag,
        _: &[u8],
        keys: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) {
        let arguments: Vec<&[u8]> = std::iter::once(b"MGET".as_slice()).chain(keys).collect();
        request::write_command(out, &arguments);
    }

    fn answer_many(&mut self, _: &Tag, count: usize, out: &mut Vec<u8>) {
        response::write_array_header(out, count);
    }

    fn split<'a, 'k>(
        &self,
        _: &Tag,
        _: impl Iterator<Item = &'k [u8]>,
        reply: &'a [u8],
    ) -> Option<Vec<Cow<'a, [u8]>>> {
        let reply = whole(reply, &self.settings.limits)?;
        let elements = || reply.elements().map(|element| Cow::Borrowed(element.bytes())).collect();
        (reply.kind() == wire::resp::Kind::Array && !reply.is_null()).then(elements)
    }

    fn elements(&self, _: &Tag, beginning: &[u8]) -> Option<(usize, usize)> {
        wire::resp::elements::Elements::begin(beginning)
    }

    fn unavailable(&mut self, tag: &Tag, why: &str, out: &mut Vec<u8>, now: Duration) {
        let (greetings, age_max) = (&self.settings.greetings, self.rules.ttl);
        if let Tag::Identify { greets: Some(form), .. } = tag
            && self.user.is_none()
            && let Some(greeting) = greetings.recall(*form, age_max, now)
        {
            out.extend_from_slice(&greeting);
            return;
        }
        // Commands that follow a MULTI which no origin has seen must not be executed one by one.
        self.lost_track |= matches!(tag, Tag::Multi);
        response::write_error(out, format!("ERR enroute: {why}").as_bytes());
    }

    fn refuse(&mut self, error: &Error, out: &mut Vec<u8>) {
        out.extend_from_slice(&request::error_line(error));
    }

    fn waits(&self, tag: &Tag) -> bool {
        matches!(tag, Tag::Blocking)
    }

    fn is_stateless(&self) -> bool {
        self.has_no_state()
    }
}
