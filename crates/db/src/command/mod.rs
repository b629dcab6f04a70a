//! Commands as data: a row of `wire`'s table says how a command is called, where its keys stand and
//! what it is; a row here adds what is done to each key, and a small file beside does it.
//!
//! **Read first:** [`table`], then `string/set.rs`.

use std::time::Duration;

pub(crate) use wire::resp::command::Flags;
use wire::resp::command::{Command as Spec, Keys as Positions};

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
pub(crate) use touch::Touch;
use touch::Touches;

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

/// One row of the table: that of wire's table, and what only who executes it has to know.
#[derive(Debug)]
pub struct Command {
    /// Name, arity, flags, categories and positions of keys.
    pub spec: Spec,
    /// Where its keys stand, and what it does to them.
    pub(crate) keys: Keys,
    /// Which shards it needs.
    pub(crate) scope: Scope,
    pub(crate) group: Group,
    /// Executed at once inside MULTI.
    pub(crate) unqueued: bool,
    /// Changes nothing but by removing, so it goes on when the disk is full.
    pub(crate) frees: bool,
    /// Given its fewest arguments, does not look at what its key held.
    replaces_key: bool,
    pub(crate) handler: Handler,
    /// Rows of its sub-commands that are served.
    pub subcommands: &'static [Command],
}

impl Command {
    /// In small letters; a sub-command is written `container|sub`.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// Is it all of these, in Redis's words?
    #[inline]
    pub(crate) fn is(&self, flags: Flags) -> bool {
        self.spec.flags.contains(flags)
    }

    /// Does it, with this number of arguments, replace one key whatever that held? Options of SET look
    /// at it; and of several keys some might be replaced before another one fails.
    pub(crate) fn replaces(&self, arguments: usize) -> bool {
        self.replaces_key && arguments == usize::from(self.spec.arity.unsigned_abs())
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
}

/// Where keys stand among the arguments, the name counted as 0, and what the command does to them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    /// The first key; 0 if there is none.
    pub(crate) first: u8,
    /// The last; negative counts from the end.
    pub(crate) last: i8,
    /// From one to the next.
    pub(crate) step: u8,
    touches: Touches,
}

impl Keys {
    /// Keys where wire's row has them. No key goes without something done to it: access rules would
    /// let everybody at it.
    const fn new(positions: Positions, touches: Touches) -> Self {
        let (first, last, step) = match positions {
            Positions::None => (0, 0, 0),
            Positions::Range { first, last, step } => (first, last, step),
            _ => panic!("keys are served where positions alone say which they are"),
        };
        assert!(touches.is_none() == (first == 0), "what is done to each key, and to no other");
        Self { first, last, step, touches }
    }

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
