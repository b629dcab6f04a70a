//! memcached support of the cache. What is cached: `docs/protocols/memcached.md`.
//!
//! Decision: `docs/decisions/0146-memcached-replies-and-expiry.md`.

use std::{
    borrow::Cow,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use wire::{
    Error, Result,
    detect::{self, Protocol},
    memcache::{
        Request as Message, Verb,
        reply::{FENCE, Meta, NO_LOGIN, Scanner, Shape},
        request::{self, Passing},
    },
    resp::request::Passed,
};

use crate::{
    filter::{
        Ahead, Combines, Cut, Filter, Flow, Kept, OVERLOADED, Probed, Read, Request, Scratch,
        Verdict,
    },
    key::{Key, Namespace, Scope},
    lease::Character,
    principal::{Finding, Login, Proof, Standing},
    rules::{LiveRules, Seen},
    stats::NotFilled,
};

mod client;
mod described;
mod flush;
mod server;
mod settings;
mod tag;
mod wins;

pub use flush::Flushes;
pub use settings::Settings;
pub use tag::{MetaGet, Parts, Tag};
pub use wins::Wins;

/// The filter of one memcached connection.
#[derive(Debug)]
pub struct Memcache {
    settings: Arc<Settings>,
    rules: Seen,
    namespace: Namespace,
    /// The first bytes of the client are not those of another protocol.
    recognised: bool,
    /// The rest of a request that is too long to be held.
    passing: Option<Passing>,
    scanner: Scanner,
    /// The last request may have logged the connection in.
    logs_in: bool,
    /// A request may have logged the connection in before.
    logged_in: bool,
}

impl Memcache {
    /// Creates the filter of a new connection.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        let namespace = Namespace::new(settings.secret, &settings.origin, b"", b"");
        Self {
            rules: Seen::of(&settings.keys),
            settings,
            namespace,
            recognised: false,
            passing: None,
            scanner: Scanner::default(),
            logs_in: false,
            logged_in: false,
        }
    }
}

impl Filter for Memcache {
    type Tag = Tag;

    const CHECKS_EARLY: bool = true;
    const COMBINES: Combines = Combines::ByName;

    #[inline]
    fn message<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Message<'a>, usize)>> {
        if !self.recognised {
            if !detect::expect(Protocol::Memcache, bytes)? {
                return Ok(None);
            }
            self.recognised = true;
        }
        request::decode(bytes, &self.settings.limits)
    }

    fn look_ahead(&self, bytes: &[u8]) -> Ahead {
        Ahead::of(self.namespace.origin, bytes, |rest| {
            let (message, length) = request::decode(rest, &self.settings.limits).ok()??;
            let hash = message.keys().next().map(|key| Key::new(self.namespace, key).hash);
            Some((hash, length))
        })
    }

    fn begin<'m>(
        &mut self,
        bytes: &'m [u8],
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Result<Option<(Request<'m, Tag>, usize)>> {
        let begun = request::begin(bytes, &self.settings.limits)?;
        let Some((message, taken, passing)) = begun else { return Ok(None) };
        self.passing = Some(passing);
        let mut request = self.name_flow(&message, scratch, standing, now);
        if let Flow::Write(write) = &mut request.flow {
            // Its value is not complete yet.
            write.states = None;
        }
        Ok(Some((request, taken)))
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<Passed> {
        let Some(passing) = &mut self.passing else { return Ok(Passed { bytes: 0, ends: true }) };
        let passed = passing.advance(bytes)?;
        if passed.ends {
            self.passing = None;
        }
        Ok(passed)
    }

    fn overloaded(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("SERVER_ERROR enroute: {OVERLOADED}\r\n").as_bytes());
    }

    #[inline]
    fn request<'m>(
        &mut self,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Result<Request<'m, Tag>> {
        self.rules.refresh(&self.settings.keys);
        let refused = standing.login() == Login::Refused;
        if refused && message.verb().has_value() && message.verb() != Verb::Set {
            // The origin would read the value as commands, and answer each of its lines.
            return Err(Error::Malformed {
                protocol: "memcached",
                offset: 0,
                expected: "a login, by the command set, before the first value",
                got: message.name().to_owned(),
            });
        }
        let message: &Message<'m> = message;
        Ok(self.name_flow(message, scratch, standing, now))
    }

    fn rules(&self) -> &LiveRules {
        &self.settings.keys
    }

    fn cut(&mut self, bytes: &[u8], tag: Option<&Tag>) -> Result<Cut> {
        let shape = tag.map_or(Shape::Line, Tag::shape);
        let progress = self.scanner.advance(bytes, shape, &self.settings.limits)?;
        if matches!(tag, Some(Tag::Check | Tag::Fence)) && bytes.starts_with(b"SERVER_ERROR ") {
            // Short of memory, memcached drops the replies before this one: the next would be taken
            // for those of other requests.
            let line = bytes.get(..progress.consumed).unwrap_or_default();
            return Err(Error::Malformed {
                protocol: "memcached",
                offset: 0,
                expected: "VERSION",
                got: line.trim_ascii_end().escape_ascii().to_string(),
            });
        }
        Ok(Cut {
            bytes: progress.consumed,
            ends: progress.complete,
            answers: true,
            continues: false,
        })
    }

    fn admit(
        &self,
        tag: &Tag,
        key: &[u8],
        reply: &[u8],
        packed: &mut Vec<u8>,
    ) -> Result<(), NotFilled> {
        server::admit(tag, key, reply, packed)
    }

    #[inline]
    fn answer(&mut self, tag: &Tag, key: &[u8], packed: &[u8], out: &mut Vec<u8>) {
        server::answer(tag, key, packed, out);
    }

    /// No reply states when an item expires, or whether it is stale. A meta get right after the
    /// read requests both.
    fn probe(
        &mut self,
        read: &Read<'_>,
        _: Character,
        out: &mut Vec<u8>,
    ) -> Result<Option<Tag>, NotFilled> {
        out.extend_from_slice(b"mg ");
        match read.key.bytes {
            // Only base64 can transmit such a key.
            key if key.iter().any(|&byte| byte <= b' ') => {
                wire::memcache::base64::encode(key, out);
                out.extend_from_slice(b" b t k\r\n");
            }
            key => {
                out.extend_from_slice(key);
                out.extend_from_slice(b" t k\r\n");
            }
        }
        Ok(Some(Tag::Probe))
    }

    fn probed(
        &mut self,
        reply: &[u8],
        kept: Kept<'_>,
        asked_at: Duration,
    ) -> Result<Probed, NotFilled> {
        let meta = Meta::parse(reply).ok_or(NotFilled::Expiry)?;
        if meta.flag(b'W').is_some()
            && let Some(key) = meta.key()
        {
            self.settings.wins.keep(&key);
        }
        let is_absent = kept.packed == server::ABSENT;
        let expires_at = match (meta.code, meta.flag(b't')) {
            _ if kept.packed.is_empty() || server::is_claimed(&meta) => {
                return Err(NotFilled::Incomplete);
            }
            (b"EN", _) if is_absent => None,
            // It was created after the read.
            (b"HD", _) if is_absent => return Err(NotFilled::Incomplete),
            (b"HD", Some(b"-1")) => None,
            (b"HD", Some(left)) => {
                let left_s = std::str::from_utf8(left).ok().and_then(|left| left.parse().ok());
                Some(asked_at + flush::lives(left_s.ok_or(NotFilled::Expiry)?))
            }
            _ => return Err(NotFilled::Expiry),
        };
        let flushed_at = self.settings.flushes.bound(asked_at);
        let expires_at = expires_at.into_iter().chain(flushed_at).min();
        Ok(Probed { expires_at, character: Character::Plain })
    }

    fn accepts(&self, _: &Tag, reply: &[u8]) -> bool {
        reply == b"STORED\r\n"
    }

    /// `NOT_FOUND`, `NOT_STORED` and `EXISTS` do not prove that the stored entry is right: the
    /// origin evicts items by itself, and another client may have changed the item.
    fn verdict(&mut self, _: &Tag, reply: &[u8]) -> Verdict {
        match reply {
            b"ERROR\r\n" => Verdict::Refused,
            _ => Verdict::Applied,
        }
    }

    fn delimit(&mut self, tag: &Tag, out: &mut Vec<u8>) -> Option<Tag> {
        if tag.shape() != Shape::Fenced {
            return None;
        }
        out.extend_from_slice(FENCE);
        Some(Tag::Fence)
    }

    fn keep_answering(&self, _: &mut Vec<u8>) {
        unreachable!("no memcached request changes which replies follow")
    }

    fn check(&mut self, _: bool, out: &mut Vec<u8>) -> Option<Tag> {
        out.extend_from_slice(FENCE);
        Some(Tag::Check)
    }

    /// A connection that is logged in has all rights.
    fn checked<'r>(&'r mut self, _: &Tag, reply: &'r [u8]) -> Finding<'r> {
        if reply.starts_with(b"VERSION ") {
            if !self.logged_in {
                self.settings.open.store(true, Relaxed);
            }
            Finding::Proven(Proof::Unrestricted)
        } else if reply.starts_with(NO_LOGIN) {
            self.settings.open.store(false, Relaxed);
            Finding::Refused
        } else {
            Finding::LoggedIn
        }
    }

    fn refuses(&self, tag: &Tag, reply: &[u8]) -> bool {
        // On a connection that is not logged in, `set` only logs in.
        matches!(tag, Tag::Login) || reply.starts_with(NO_LOGIN) || reply == b"ERROR\r\n"
    }

    fn everything(&self) -> Scope<'static> {
        self.namespace.whole_origin()
    }

    fn observe(&mut self, _: &Tag, _: &[u8], _: &mut Standing) {}

    fn rewrite(
        &mut self,
        tag: &Tag,
        reply: &[u8],
        out: &mut Vec<u8>,
        _: &mut Standing,
        _: Duration,
    ) {
        match tag {
            Tag::Claims { key, .. } => self.settings.wins.rewrite(key, reply, out),
            _ => out.extend_from_slice(reply),
        }
    }

    fn request_missing<'a>(
        &mut self,
        tag: &Tag,
        _: &[u8],
        keys: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) {
        let unique = matches!(tag, Tag::Get { unique: true, .. });
        out.extend_from_slice(if unique { b"gets" } else { b"get" });
        for key in keys {
            out.push(b' ');
            out.extend_from_slice(key);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn answer_many(&mut self, _: &Tag, _: usize, _: &mut Vec<u8>) {}

    fn end_many(&mut self, _: &Tag, out: &mut Vec<u8>) {
        out.extend_from_slice(b"END\r\n");
    }

    fn split<'a, 'k>(
        &self,
        _: &Tag,
        keys: impl Iterator<Item = &'k [u8]>,
        reply: &'a [u8],
    ) -> Option<Vec<Cow<'a, [u8]>>> {
        server::split(keys, reply)
    }

    fn unavailable(&mut self, tag: &Tag, why: &str, out: &mut Vec<u8>, _: Duration) {
        if !matches!(tag, Tag::Fenced { silent: true }) {
            out.extend_from_slice(format!("SERVER_ERROR enroute: {why}\r\n").as_bytes());
        }
    }

    fn refuse(&mut self, error: &Error, out: &mut Vec<u8>) {
        match error {
            Error::Foreign { found, first, .. } => {
                detect::refuse(*found, first, &error.to_string(), out);
            }
            error => out.extend_from_slice(request::error_line(error)),
        }
    }

    fn waits(&self, tag: &Tag) -> bool {
        matches!(tag, Tag::Keys)
    }

    fn is_stateless(&self) -> bool {
        !self.logged_in
    }
}
