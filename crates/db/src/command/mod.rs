//! Commands as data: a row says how a command is called, where its keys stand and what it is;
//! a small file beside does it.
//!
//! **Read first:** [`table`], then `string/set.rs`.

use std::time::Duration;

use crate::{failure::Failure, keyspace::Keyspace, reply::Reply, server::Server, session::Session};

mod bit;
mod connection;
mod generic;
mod server;
mod string;
pub mod table;
mod touch;

pub(crate) use connection::tracking::Tracking;
pub(crate) use generic::{database_of as selected, rename::other_database, scan::Walk};
pub(crate) use touch::{Touch, Touches};

/// What one execution of a command has in its hands.
pub struct Call<'c, 'k> {
    /// The arguments, the name first.
    pub(crate) args: &'c [&'c [u8]],
    /// The keys it may touch, all loaded.
    pub(crate) keys: &'c mut Keyspace<'k>,
    /// The connection it came from.
    pub(crate) session: &'c mut Session,
    /// What all connections share.
    pub(crate) server: &'c Server,
    /// Where the answer goes.
    pub(crate) reply: Reply<'c>,
    /// Since the Unix epoch.
    pub(crate) now: Duration,
}

impl Call<'_, '_> {
    /// Milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.keys.now_ms()
    }
}

/// Does one command. On failure nothing was changed and the failure is the whole answer.
pub(crate) type Handler = fn(&mut Call<'_, '_>) -> Result<(), Failure>;

/// One row of the table.
#[derive(Debug)]
pub struct Command {
    /// In small letters; a sub-command is written `container|sub`.
    pub name: &'static str,
    /// Arguments with the name; negative for "at least".
    pub arity: i8,
    /// What it is.
    pub flags: Flags,
    /// Where its keys stand, and what it does to them.
    pub keys: Keys,
    /// Which shards it needs.
    pub(crate) scope: Scope,
    pub(crate) group: Group,
    /// The access rules' category, beside those that follow from its flags.
    pub(crate) category: Option<&'static str>,
    pub(crate) handler: Handler,
    /// Rows of its sub-commands.
    pub subcommands: &'static [Command],
}

impl Command {
    /// Is this number of arguments, the name counted, acceptable?
    pub(crate) fn accepts(&self, arguments: usize) -> bool {
        let required = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= required } else { arguments == required }
    }

    /// Does it, with this number of arguments, replace one key whatever that held? Options of SET look
    /// at it; and of several keys some might be replaced before another one fails.
    pub(crate) fn replaces(&self, arguments: usize) -> bool {
        self.flags.has(Flags::REPLACES) && arguments == usize::from(self.arity.unsigned_abs())
    }
}

/// What a command's rows are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    String,
    Bitmap,
    Generic,
    Connection,
    Transactions,
    Server,
    Pubsub,
}

impl Group {
    /// As COMMAND DOCS names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::Generic => "generic",
            Self::Connection => "connection",
            Self::Transactions => "transactions",
            Self::Server => "server",
            Self::Pubsub => "pubsub",
        }
    }

    /// The access rules' category of most of its commands.
    const fn category(self) -> Option<&'static str> {
        match self {
            Self::String => Some("string"),
            Self::Bitmap => Some("bitmap"),
            Self::Generic => Some("keyspace"),
            Self::Connection => Some("connection"),
            Self::Transactions => Some("transaction"),
            Self::Server => None,
            Self::Pubsub => Some("pubsub"),
        }
    }
}

/// Where keys stand among the arguments, the name counted as 0, and what the command does to them.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// The first key; 0 if there is none.
    pub first: u8,
    /// The last; negative counts from the end.
    pub last: i8,
    /// From one to the next.
    pub step: u8,
    pub(crate) touches: Touches,
}

impl Keys {
    pub(crate) const NONE: Self = Self { first: 0, last: 0, step: 0, touches: Touches::NONE };

    /// The positions of the keys among `arguments` arguments.
    #[inline]
    pub(crate) fn of(self, arguments: usize) -> impl Iterator<Item = usize> {
        let last = match usize::try_from(self.last) {
            Ok(last) => last,
            Err(_) => arguments.saturating_sub(usize::from(self.last.unsigned_abs())),
        };
        let end = if self.first == 0 { 0 } else { (last + 1).min(arguments) };
        (usize::from(self.first)..end).step_by(usize::from(self.step).max(1))
    }
}

/// Which shards a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// None.
    None,
    /// Those of its keys.
    Keys,
    /// All of them.
    All,
}

/// What a command is, in Redis's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const WRITE: Self = Self(1);
    pub(crate) const READONLY: Self = Self(1 << 1);
    pub(crate) const DENYOOM: Self = Self(1 << 2);
    pub(crate) const ADMIN: Self = Self(1 << 3);
    pub(crate) const FAST: Self = Self(1 << 4);
    pub(crate) const NO_AUTH: Self = Self(1 << 5);
    pub(crate) const PUBSUB: Self = Self(1 << 6);
    /// Refuses nothing while data is still being looked for.
    pub(crate) const LOADING: Self = Self(1 << 8);
    pub(crate) const NOSCRIPT: Self = Self(1 << 9);
    /// Executed at once inside MULTI.
    pub(crate) const UNQUEUED: Self = Self(1 << 10);
    /// Dangerous in the access rules' sense.
    pub(crate) const DANGEROUS: Self = Self(1 << 11);
    /// Refused unless debugging is enabled.
    pub(crate) const PROTECTED: Self = Self(1 << 12);
    /// Refused inside MULTI.
    pub(crate) const NO_MULTI: Self = Self(1 << 13);
    /// Changes nothing but by removing, so it goes on when the disk is full.
    pub(crate) const FREES: Self = Self(1 << 14);
    /// Given its fewest arguments, does not look at what its key held.
    pub(crate) const REPLACES: Self = Self(1 << 15);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names COMMAND INFO shows.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: &[(Flags, &str)] = &[
            (Flags::WRITE, "write"),
            (Flags::READONLY, "readonly"),
            (Flags::DENYOOM, "denyoom"),
            (Flags::ADMIN, "admin"),
            (Flags::PUBSUB, "pubsub"),
            (Flags::NOSCRIPT, "noscript"),
            (Flags::LOADING, "loading"),
            // There are no replicas: what is answered while loading is answered while stale, too.
            (Flags::LOADING, "stale"),
            (Flags::FAST, "fast"),
            (Flags::NO_AUTH, "no_auth"),
            (Flags::NO_MULTI, "no_multi"),
        ];
        NAMES.iter().filter(move |(flag, _)| self.has(*flag)).map(|&(_, name)| name)
    }
}
