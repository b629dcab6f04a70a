//! Commands as data: a row of `wire`'s table says how a command is called, where its keys stand and
//! what it is; a row here adds what is done to each key, and a small file beside does it.
//!
//! **Read first:** [`table`], then `string/set.rs`.

use std::time::Duration;

use crate::{
    failure::Failure, keyspace::Keyspace, reply::Reply, row::Row, server::Server, session::Session,
};

mod bit;
mod connection;
mod generic;
mod server;
mod string;
pub mod table;

pub(crate) use crate::outcome::Outcome;
pub(crate) use connection::tracking::Tracking;
pub(crate) use generic::{database_of as selected, rename::other_database, scan::Walk};

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
pub(crate) type Handler = fn(&mut Call<'_, '_>) -> Result<Outcome, Failure>;

/// One row of the table, and what does it.
#[derive(Debug)]
pub struct Command {
    /// What is known of it without doing it.
    pub row: Row,
    pub(crate) group: Group,
    pub(crate) handler: Handler,
    /// Rows of its sub-commands that are served.
    pub subcommands: &'static [Command],
}

impl Command {
    /// In small letters; a sub-command is written `container|sub`.
    pub fn name(&self) -> &'static str {
        self.row.name()
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
