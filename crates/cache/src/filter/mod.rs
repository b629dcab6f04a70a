//! Filter: names the flow of every message (VNF-Cache §3.1).
//!
//! The Client Filter separates *manipulation* – reads and writes of data – from *coordination*,
//! which passes byte for byte; the Server Filter cuts *responses*. Each protocol is one module with
//! a `client` and a `server` file; everything above uses keys, variants and scopes only.

use std::{borrow::Cow, time::Duration};

use smallvec::SmallVec;
use wire::{Result, resp::request::Passed};

use crate::{
    key::{Key, Scope},
    lease::Character,
    principal::{Finding, Standing},
    rules::LiveRules,
    stats::{NotFilled, WhyNot},
};

mod ahead;
mod described;
pub mod dynamodb;
mod greeting;
pub mod memcache;
pub mod mongo;
mod read;
mod reply;
pub mod resp;

pub use ahead::{AHEAD, Ahead};
pub use described::Described;
pub use greeting::{Form, Greetings};
pub(crate) use read::subject;
pub use read::{Answers, Read, ReadMany};
pub use reply::{Combines, Cut, Hush, Kept, Probed, Reply};

/// Bytes of a write's reply that are kept; a reply that proves a refusal is shorter.
pub const VERDICT_BYTES: usize = 4 << 10;

/// Buffer for data that a filter constructs from a request: canonical keys, variants.
pub type Scratch = Vec<u8>;

/// Error for a client that is closed to free buffer memory.
const OVERLOADED: &str = "closing: the buffers of all clients have reached their limit, and this client has the \
                          largest; request less at once, or read replies sooner";

/// One message of the client, parsed as far as the cache needs it.
#[derive(Debug)]
pub struct Request<'a, T> {
    /// How the request is handled.
    pub flow: Flow<'a>,
    /// State needed to interpret its reply.
    pub tag: T,
    /// The kind of reply to expect.
    pub reply: Reply,
    /// Effect on the writes that the origin has queued so far (inside MULTI).
    pub ends: Ends,
}

/// How a request ends a transaction. As wide as a word: see [`Flow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Ends {
    /// It does not end a transaction.
    Nothing,
    /// The origin executes the queued commands.
    Executes,
    /// The origin drops the queued commands.
    Discards,
}

/// Outcome of a write according to its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The origin has applied it, or may have.
    Applied,
    /// The reply proves that the origin has done nothing.
    Refused,
    /// The reply proves that the origin has done nothing yet: it keeps the write for the end of a
    /// transaction.
    Queued,
    /// As [`Self::Applied`], but it is unknown whether the transaction has ended.
    Unclear,
    /// An error whose text a script may have chosen: the reply to the [`Filter::proof`] after it
    /// decides. Counts as applied if there is none.
    Claimed,
}

impl<'a, T> Request<'a, T> {
    /// A request with one reply that does not concern the cache.
    #[inline]
    pub fn new(flow: Flow<'a>, tag: T) -> Self {
        Self { flow, tag, reply: Reply::Plain, ends: Ends::Nothing }
    }
}

/// The three flows of the paper; manipulation is divided further.
///
/// Its tag takes a word, so that it is moved in words. After a tag of one byte the compiler moves
/// it at odd offsets, and the processor waits for the preceding store: 20 ns per request.
#[derive(Debug)]
#[repr(u64)]
pub enum Flow<'a> {
    /// Manipulation: a read of one key.
    Read(Read<'a>),
    /// Manipulation: a read of several keys with one combined reply.
    ReadMany(ReadMany<'a>),
    /// Manipulation: a read that storage does not answer, and why.
    Bypass(WhyNot),
    /// Manipulation: a write.
    Write(Write<'a>),
    /// A request that may be sent only on a connection known to be logged in. It waits until that
    /// is known.
    NeedsLogin,
    /// A request that can be interpreted only after the origin has answered the outstanding
    /// requests of this connection. It waits for those replies.
    NeedsReplies,
    /// Coordination.
    Coordination,
}

impl Flow<'_> {
    /// Its name in the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::ReadMany(_) => "read",
            Self::Bypass(_) => "read that is never stored",
            Self::Write(_) => "write",
            Self::NeedsLogin => "waits for the login",
            Self::NeedsReplies => "waits for replies",
            Self::Coordination => "coordination",
        }
    }

    /// Whether it is a write with a scope wider than keys.
    pub(crate) fn is_wide_write(&self) -> bool {
        matches!(self, Self::Write(write) if !write.scopes.iter().all(|of| matches!(of, Scope::Key(_))))
    }
}

/// A write.
#[derive(Debug)]
pub struct Write<'a> {
    /// The command, for the log; "" if it is not known.
    pub name: &'static str,
    /// All scopes that it can touch.
    pub scopes: SmallVec<[Scope<'a>; 1]>,
    /// The whole values that the write gives to its scopes, which are keys, in their order, if it
    /// contains them. Boxed, as are all rare fields: requests are passed by value, and most are
    /// reads.
    pub states: Option<Box<[States<'a>]>>,
}

impl<'a> Write<'a> {
    /// A write to several scopes.
    #[must_use]
    pub fn to_all(scopes: SmallVec<[Scope<'a>; 1]>) -> Self {
        Self { name: "", scopes, states: None }
    }

    /// A write to one scope.
    #[must_use]
    pub fn to(scope: Scope<'a>) -> Self {
        Self::to_all(SmallVec::from_iter([scope]))
    }
}

/// A value stated by a write.
#[derive(Debug)]
pub struct States<'a> {
    /// The key written.
    pub key: Key<'a>,
    /// As that of a [`Read`].
    pub place: (&'a str, &'a str),
    /// Select those of its answers that this is.
    pub variants: SmallVec<[&'a [u8]; 1]>,
    /// The answer, as [`Filter::admit`] would have packed it.
    pub answer: Vec<u8>,
    /// Time to live from when it is sent, if the write gives one.
    pub lives: Option<Duration>,
}

/// One protocol, as the cache uses it. The only place in tier 1 that interprets messages of a
/// protocol.
pub trait Filter: Described {
    /// State of a request that is kept until its reply.
    type Tag: Clone + std::fmt::Debug;

    /// Cuts the client's next complete message off `bytes` and returns its length; `None` asks for
    /// more bytes.
    ///
    /// # Errors
    /// The bytes break the protocol or a limit; the connection cannot continue.
    fn message<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Self::Message<'a>, usize)>>;

    /// Reads the next requests in `bytes`, at a boundary between two, without taking them: for the
    /// hashes of the keys that they probably look up. The default finds none, for a protocol whose
    /// clients do not pipeline.
    fn look_ahead(&self, bytes: &[u8]) -> Ahead {
        Ahead { origin: 0, hashes: SmallVec::new(), bytes: bytes.len() }
    }

    /// Whether the identity of a connection is checked with its first request of any kind. If not,
    /// with the first that reads or writes.
    const CHECKS_EARLY: bool;

    /// Whether each request waits for the reply to the one before it.
    const ONE_AT_A_TIME: bool = false;

    /// How a reply combines several answers.
    const COMBINES: Combines;

    /// Client Filter: determines the flow of a message. `scratch` is space for constructed data.
    ///
    /// # Errors
    /// As [`Self::message`].
    fn request<'m>(
        &mut self,
        message: &'m Self::Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Result<Request<'m, Self::Tag>>;

    /// The rules of the listener, as they are now.
    fn rules(&self) -> &LiveRules;

    /// Interprets the beginning of a message that is too long to be held. Returns the request as
    /// far as the beginning determines it, and the number of bytes examined; [`Self::pass`] finds
    /// the end of the message after them. `None` asks for more bytes. Call it after
    /// [`Self::message`] has returned `None` for the same bytes. Such a message is never a read to
    /// be answered from storage.
    ///
    /// # Errors
    /// As [`Self::message`].
    fn begin<'m>(
        &mut self,
        bytes: &'m [u8],
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Result<Option<(Request<'m, Self::Tag>, usize)>>;

    /// Returns how many of the next `bytes` belong to that message, and whether it ends with them.
    ///
    /// # Errors
    /// As [`Self::message`].
    fn pass(&mut self, bytes: &[u8]) -> Result<Passed>;

    /// Writes the protocol's own error for a client that is closed to make room, where it has one.
    fn overloaded(&mut self, out: &mut Vec<u8>);

    /// Server Filter: how far the current message of the origin reaches into `bytes`.
    /// `tag` is the request at the head of the queue.
    ///
    /// # Errors
    /// The bytes break the protocol or a limit, or answer no request.
    fn cut(&mut self, bytes: &[u8], tag: Option<&Self::Tag>) -> Result<Cut>;

    /// Packs a whole reply for storage.
    ///
    /// # Errors
    /// [`NotFilled`] says why this reply must not be stored.
    fn admit(
        &self,
        tag: &Self::Tag,
        key: &[u8],
        reply: &[u8],
        packed: &mut Vec<u8>,
    ) -> Result<(), NotFilled>;

    /// Rebuilds the reply to the request of `tag`, or its part for `key`, from packed bytes.
    fn answer(&mut self, tag: &Self::Tag, key: &[u8], packed: &[u8], out: &mut Vec<u8>);

    /// The part of a packed answer that is the same whenever the record is the same.
    fn comparable<'p>(&self, _variant: &[u8], packed: &'p [u8]) -> Cow<'p, [u8]> {
        Cow::Borrowed(packed)
    }

    /// Writes a request of our own that asks what must be known before the reply to `read` may be
    /// stored, and gives its tag; `None` if nothing is missing.
    ///
    /// # Errors
    /// [`NotFilled`] if that cannot be learned, so that the reply must not be stored.
    fn probe(
        &mut self,
        read: &Read<'_>,
        character: Character,
        out: &mut Vec<u8>,
    ) -> Result<Option<Self::Tag>, NotFilled>;

    /// Writes a request of our own that asks what must be known before a value that a write states
    /// may be stored in this place, and gives its tag; `None` if nothing is missing.
    fn probe_stated(
        &mut self,
        _place: (&str, &str),
        _character: Character,
        _out: &mut Vec<u8>,
    ) -> Option<Self::Tag> {
        None
    }

    /// Reads the reply to a probe sent at `asked_at`, for which `kept` waits.
    ///
    /// # Errors
    /// [`NotFilled`] if that must not be stored.
    fn probed(
        &mut self,
        reply: &[u8],
        kept: Kept<'_>,
        asked_at: Duration,
    ) -> Result<Probed, NotFilled>;

    /// Whether the origin accepted the write of `tag`.
    fn accepts(&self, tag: &Self::Tag, reply: &[u8]) -> bool;

    /// Judges from a reply whether the writes of `tag` were applied. `reply` has at least the first
    /// [`VERDICT_BYTES`] of it. Called for every reply to a write, and to a request that ends a
    /// transaction.
    fn verdict(&mut self, tag: &Self::Tag, reply: &[u8]) -> Verdict;

    /// Whether `message`, which is no reply, confirms the request of `tag` ([`Reply::Confirmed`]).
    fn confirms(&self, _tag: &Self::Tag, _message: &[u8]) -> bool {
        false
    }

    /// Writes a request of our own that the origin answers when it is done with all before it, and
    /// gives its tag; none if the protocol answers every request.
    fn fence(&mut self, _out: &mut Vec<u8>) -> Option<Self::Tag> {
        None
    }

    /// If the reply to the request of `tag` has no end of its own, writes a request whose reply
    /// marks that end, and returns its tag. The request of `tag` has just been sent.
    fn delimit(&mut self, _tag: &Self::Tag, _out: &mut Vec<u8>) -> Option<Self::Tag> {
        None
    }

    /// Writes a request of our own that the origin refuses if it has refused the write of `tag`,
    /// which has just been sent, for lack of a right, and gives its tag; none if the reply to the
    /// write proves that.
    fn proof(&mut self, _tag: &Self::Tag, _out: &mut Vec<u8>) -> Option<Self::Tag> {
        None
    }

    /// Writes the request that is sent to the origin instead of one after which the origin would
    /// not answer all requests.
    fn keep_answering(&self, out: &mut Vec<u8>);

    /// Writes an identity check of the connection, and returns its tag; `None` if it would separate
    /// requests that belong together. The check precedes the current request, or, if `forced`,
    /// follows everything sent so far.
    fn check(&mut self, forced: bool, out: &mut Vec<u8>) -> Option<Self::Tag>;

    /// Reads the answer to a check.
    fn checked<'r>(&'r mut self, tag: &Self::Tag, reply: &'r [u8]) -> Finding<'r>;

    /// Whether the connection, whose rights were last [`checked`](Self::checked) to be limited, may
    /// read whatever it writes in this place. Not known by default.
    fn may_read(&self, _place: (&str, &str)) -> bool {
        false
    }

    /// Whether the reply shows that the connection is not logged in, or that the request does not
    /// exist.
    fn refuses(&self, tag: &Self::Tag, reply: &[u8]) -> bool;

    /// The widest scope that a request to this origin can touch.
    fn everything(&self) -> Scope<'static>;

    /// Sees a reply that changes the connection's state ([`Reply::Observed`]).
    fn observe(&mut self, tag: &Self::Tag, reply: &[u8], standing: &mut Standing);

    /// Writes to `out` what the client receives instead of `reply` ([`Reply::Rewritten`]).
    fn rewrite(
        &mut self,
        tag: &Self::Tag,
        reply: &[u8],
        out: &mut Vec<u8>,
        standing: &mut Standing,
        now: Duration,
    );

    /// Stores the greeting in a reply, for use while the origin cannot be reached.
    fn remember(&self, _tag: &Self::Tag, _reply: &[u8], _now: Duration) {}

    /// Writes the set-up commands of a new connection to the origin that replaces a lost one, and
    /// gives its tag; its reply is shown to [`Self::observe`] and kept from the client.
    fn restore(&mut self, _out: &mut Vec<u8>) -> Option<Self::Tag> {
        None
    }

    /// Returns the replacement for `message`, a complete message of the origin that redirects the
    /// client to another address; `None` if it redirects nowhere.
    fn redirect(&self, _message: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Writes a request for those `keys` of the request `original` that are missing, in the manner
    /// of `tag`.
    fn request_missing<'a>(
        &mut self,
        tag: &Self::Tag,
        original: &[u8],
        keys: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    );

    /// Begins a reply that combines `count` answers.
    fn answer_many(&mut self, tag: &Self::Tag, count: usize, out: &mut Vec<u8>);

    /// Ends a reply that [`Self::answer_many`] began in `out`.
    fn end_many(&mut self, _tag: &Self::Tag, _out: &mut Vec<u8>) {}

    /// Returns the answers for `keys` combined in `reply`; `None` if it is an error.
    fn split<'a, 'k>(
        &self,
        tag: &Self::Tag,
        keys: impl Iterator<Item = &'k [u8]>,
        reply: &'a [u8],
    ) -> Option<Vec<Cow<'a, [u8]>>>;

    /// Returns the number of answers in a reply that begins with `beginning`, and of bytes before
    /// the first; `None` if it does not contain several answers.
    fn elements(&self, _tag: &Self::Tag, _beginning: &[u8]) -> Option<(usize, usize)> {
        None
    }

    /// Writes the protocol's own error for an origin that cannot be reached, or the origin's last
    /// answer if a client could not continue without it.
    fn unavailable(&mut self, tag: &Self::Tag, why: &str, out: &mut Vec<u8>, now: Duration);

    /// Writes the protocol's own error for a client that broke the protocol, where it has one.
    fn refuse(&mut self, error: &wire::Error, out: &mut Vec<u8>);

    /// Whether the reply to the request of `tag` may depend on other clients or on an event.
    fn waits(&self, tag: &Self::Tag) -> bool;

    /// Whether a new connection to the origin can replace one that was lost. It cannot if the
    /// client has logged in, selected a database, or left other state at the origin.
    fn is_stateless(&self) -> bool;
}
