//! DynamoDB support of the cache. What is cached: `docs/protocols/dynamodb.md`.
//!
//! Nothing is asked of the origin about a client: each request carries a signature, which is
//! verified here before its answer may leave storage. One request is outstanding at a time, so the
//! principal of the last request is that of the next reply.

use std::{borrow::Cow, sync::Arc, time::Duration};

use wire::{
    Error, Result,
    detect::{self, Protocol},
    dynamodb::{
        Message, Passing, batch,
        reply::{self, Failure, Scanner, write_error},
        request,
        value::Names,
    },
    resp::request::Passed,
    sigv4::{Credentials, Verifier},
};

use crate::{
    filter::{Combines, Cut, Filter, Kept, OVERLOADED, Probed, Read, Request, Scratch, Verdict},
    key::{Namespace, Scope},
    lease::Character,
    live,
    principal::{Finding, Standing},
    rules::{LiveRules, Seen},
    stats::NotFilled,
};

mod client;
mod described;
mod many;
mod operation;
mod queries;
mod settings;
mod tables;

pub use settings::{Settings, Streams, Wanted};
pub use tables::Tables;

/// The filter of one DynamoDB connection.
#[derive(Debug)]
pub struct DynamoDb {
    settings: Arc<Settings>,
    rules: Seen,
    namespace: Namespace,
    credentials: live::Seen<Credentials>,
    verifier: Verifier,
    /// When the last request was read.
    asked_at: Duration,
    /// The first bytes of the client are not those of another protocol.
    recognised: bool,
    /// The rest of a request that is too long to be held.
    passing: Option<Passing>,
    scanner: Scanner,
    /// Where the answer that is being combined begins in the bytes for the client.
    combined_at: usize,
}

/// State of a request that is kept until its reply.
#[derive(Debug, Clone)]
pub enum Tag {
    /// The reply has no body, whatever its headers say: the method was `HEAD`.
    Head,
    /// `BatchGetItem`, of these tables.
    Many(Arc<batch::TableNames>),
    /// `Query` or `Scan`.
    Page,
    /// Any other.
    Other,
}

impl DynamoDb {
    /// Creates the filter of a new connection.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            rules: Seen::of(&settings.keys),
            namespace: Namespace::new(settings.secret, &settings.origin, b"", b""),
            credentials: live::Seen::of(&settings.credentials),
            settings,
            verifier: Verifier::default(),
            asked_at: Duration::ZERO,
            recognised: false,
            passing: None,
            scanner: Scanner::default(),
            combined_at: 0,
        }
    }
}

impl Filter for DynamoDb {
    type Tag = Tag;

    const CHECKS_EARLY: bool = false;
    /// Whether the origin keeps the connection shows with its reply.
    const ONE_AT_A_TIME: bool = true;
    const COMBINES: Combines = Combines::Whole;

    fn message<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Message<'a>, usize)>> {
        if !self.recognised {
            if !detect::expect(Protocol::Http, bytes)? {
                return Ok(None);
            }
            self.recognised = true;
        }
        request::decode(bytes, &self.settings.limits)
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
        Ok(Some((self.name_flow(&message, false, scratch, standing, now), taken)))
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
        write_error(Failure::Overloaded, OVERLOADED, self.settings.request_id(), out);
    }

    fn request<'m>(
        &mut self,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Result<Request<'m, Tag>> {
        self.rules.refresh(&self.settings.keys);
        if self.credentials.refresh(&self.settings.credentials) {
            // It keeps a key that was derived from a secret.
            self.verifier = Verifier::default();
        }
        Ok(self.name_flow(message, true, scratch, standing, now))
    }

    fn rules(&self) -> &LiveRules {
        &self.settings.keys
    }

    fn cut(&mut self, bytes: &[u8], tag: Option<&Tag>) -> Result<Cut> {
        let to_head = matches!(tag, Some(Tag::Head));
        let progress = self.scanner.advance(bytes, to_head, &self.settings.limits)?;
        Ok(Cut {
            bytes: progress.consumed,
            ends: progress.complete,
            answers: true,
            continues: false,
        })
    }

    /// An entry is the checksum of its content, little-endian, and the content without a coding:
    /// any client can be answered with it. That of `BatchGetItem` is the item.
    fn admit(
        &self,
        tag: &Tag,
        key: &[u8],
        reply: &[u8],
        packed: &mut Vec<u8>,
    ) -> Result<(), NotFilled> {
        if matches!(tag, Tag::Many(_)) {
            packed.extend_from_slice(batch::stored(reply).ok_or(NotFilled::Incomplete)?);
        } else {
            let limits = &self.settings.limits;
            let reply = reply::Reply::parse(reply, limits).ok_or(NotFilled::Incomplete)?;
            let (content, checksum) = reply.answer(limits).ok_or(NotFilled::ErrorReply)?;
            packed.extend_from_slice(&checksum.to_le_bytes());
            packed.extend_from_slice(&content);
        }
        if matches!(tag, Tag::Page) {
            return Ok(());
        }
        let (table, names) = Names::of_key(key).ok_or(NotFilled::OtherKey)?;
        if !self.settings.tables.learn(self.table(table), names) {
            return Err(NotFilled::OtherKey);
        }
        Ok(())
    }

    fn answer(&mut self, tag: &Tag, key: &[u8], packed: &[u8], out: &mut Vec<u8>) {
        if let Tag::Many(tables) = tag {
            return tables.write_stored(key, packed, out);
        }
        let Some((checksum, body)) = packed.split_first_chunk() else { return };
        let id = self.settings.request_id();
        reply::write("200 OK", u32::from_le_bytes(*checksum), body, id, false, out);
    }

    fn comparable<'p>(&self, _: &[u8], packed: &'p [u8]) -> Cow<'p, [u8]> {
        reply::comparable(packed.get(size_of::<u32>()..).unwrap_or_default())
    }

    /// Every reply states all that must be known, unless a write has just been sent.
    fn probe(
        &mut self,
        read: &Read<'_>,
        _: Character,
        _: &mut Vec<u8>,
    ) -> Result<Option<Tag>, NotFilled> {
        match self.settings.tables.are_settling(read.key, self.asked_at) {
            true => Err(NotFilled::Revoked),
            false => Ok(None),
        }
    }

    fn probed(&mut self, _: &[u8], _: Kept<'_>, _: Duration) -> Result<Probed, NotFilled> {
        Err(NotFilled::Incomplete)
    }

    fn accepts(&self, _: &Tag, _: &[u8]) -> bool {
        false
    }

    fn verdict(&mut self, _: &Tag, reply: &[u8]) -> Verdict {
        let limits = &self.settings.limits;
        let reply = reply::Reply::parse(reply, limits);
        match reply.is_some_and(|reply| reply.is_refusal(limits)) {
            true => Verdict::Refused,
            false => Verdict::Applied,
        }
    }

    fn keep_answering(&self, _: &mut Vec<u8>) {
        unreachable!("no DynamoDB request changes which replies follow")
    }

    /// Nothing is asked: each request is signed.
    fn check(&mut self, _: bool, _: &mut Vec<u8>) -> Option<Tag> {
        None
    }

    fn checked<'r>(&'r mut self, _: &Tag, _: &'r [u8]) -> Finding<'r> {
        Finding::LoggedIn
    }

    fn refuses(&self, _: &Tag, _: &[u8]) -> bool {
        false
    }

    fn everything(&self) -> Scope<'static> {
        self.namespace.whole_origin()
    }

    fn observe(&mut self, _: &Tag, _: &[u8], _: &mut Standing) {}

    fn rewrite(&mut self, _: &Tag, reply: &[u8], out: &mut Vec<u8>, _: &mut Standing, _: Duration) {
        out.extend_from_slice(reply);
    }

    fn request_missing<'a>(
        &mut self,
        _: &Tag,
        original: &[u8],
        keys: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) {
        self.ask_for(original, keys, out);
    }

    /// The parts follow. What the client gets is written by [`Self::end_many`].
    fn answer_many(&mut self, _: &Tag, _: usize, out: &mut Vec<u8>) {
        self.combined_at = out.len();
    }

    fn end_many(&mut self, tag: &Tag, out: &mut Vec<u8>) {
        if let Tag::Many(tables) = tag {
            self.combine(tables, out);
        }
    }

    fn split<'a, 'k>(
        &self,
        tag: &Tag,
        keys: impl Iterator<Item = &'k [u8]>,
        reply: &'a [u8],
    ) -> Option<Vec<Cow<'a, [u8]>>> {
        let Tag::Many(tables) = tag else { return None };
        let parts = self.parts(tables, keys, reply)?;
        Some(parts.into_iter().map(Cow::Owned).collect())
    }

    fn unavailable(&mut self, _: &Tag, why: &str, out: &mut Vec<u8>, _: Duration) {
        write_error(Failure::Unavailable, why, self.settings.request_id(), out);
    }

    fn refuse(&mut self, error: &Error, out: &mut Vec<u8>) {
        match error {
            Error::Foreign { found, first, .. } => {
                detect::refuse(*found, first, &error.to_string(), out);
            }
            error => {
                let id = self.settings.request_id();
                write_error(Failure::Malformed, &error.to_string(), id, out);
            }
        }
    }

    fn waits(&self, _: &Tag) -> bool {
        false
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
