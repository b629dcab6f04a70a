//! The effect of each command on its keys, as a table.
//!
//! The rows follow the servers' own tables (Redis 7.2 to 8, Valkey 8 and 9) and are checked against
//! a real server in `tests/command_table_agrees_with_the_server.rs`. `enroute db` extends these
//! rows and uses them to serve. The effects are our own: they state what a cache must know. Where
//! two readings are possible, a row uses the one that caches less.
//!
//! ```
//! use wire::resp::{Limits, command, command::Effect, request};
//! let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
//! let (request, _) = request::decode(bytes, &Limits::default())?.unwrap();
//! let command = command::find(&request).unwrap();
//! assert_eq!(command.effect, Effect::Write);
//! assert!(command.keys(&request)?.eq([b"k"]));
//! # Ok::<(), wire::Error>(())
//! ```

mod categories;
mod flags;
mod index;
mod keys;
mod shards;
mod table;

pub use self::categories::Categories;
pub use self::flags::Flags;
pub use self::keys::{KeyIter, Keys};
pub use self::shards::{Merge, Shards};
use super::Request;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Lower case; a subcommand follows its container: `client|tracking`.
    pub name: &'static str,
    /// Number of arguments, including the name and the subcommand: exactly `n`, or at least `-n`.
    /// If versions of the servers differ, the widest range.
    pub arity: i8,
    /// The effect on a cache.
    pub effect: Effect,
    /// The positions of its keys.
    pub keys: Keys,
    /// Properties beside the effect.
    pub flags: Flags,
    /// The shards of a cluster that execute it.
    pub shards: Shards,
    /// Its categories in addition to those that follow from its flags.
    own_categories: Categories,
    /// Rows of its subcommands, if the first argument names one.
    pub subcommands: &'static [Self],
}

/// The effect of a command on a cache in front of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Reads one key and nothing else: the reply depends on the value and the arguments alone,
    /// until the key is written.
    Read,
    /// The same for several keys; [`Split`] states whether the reply can be split by key.
    ReadMany(Split),
    /// Reads something that changes without a write (time, a cursor, random numbers, statistics,
    /// the whole key space), or runs code. The reply must not be stored.
    ReadUncacheable,
    /// May change its [`keys`](Command::keys), and only those: deletes, expiries and reads that
    /// remove or touch are writes too.
    Write,
    /// May change every key of the selected database.
    WriteDatabase,
    /// May change any key of any database, or replace the data of the server.
    WriteEverything,
    /// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
    Transaction,
    /// Changes or shows the state of this connection: user, database, protocol, tracking, whether
    /// replies are sent.
    Connection,
    /// Turns the connection into a stream of messages, or back: SUBSCRIBE, MONITOR, PSYNC.
    PubSub,
    /// Changes the rights of users.
    Access,
    /// Neither reads nor writes values.
    Other,
}

impl Effect {
    /// Whether the command only reads values. Scripts marked read-only count.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadMany(_) | Self::ReadUncacheable)
    }

    /// Whether it may change values.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteDatabase | Self::WriteEverything)
    }
}

/// The rule by which the reply to a read of several keys is composed from those of single keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// An array; element `i` depends on key `i` alone (MGET).
    Elements,
    /// An integer; the sum over the keys, where a key that is named twice counts twice (EXISTS).
    Sum,
    /// Depends on all keys together (SINTER, LCS).
    Whole,
}

impl Command {
    /// A row without categories of its own.
    const fn new(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Self {
        let own_categories = Categories::NONE;
        let shards = Shards::One;
        Self { name, arity, effect, keys, flags, shards, own_categories, subcommands: &[] }
    }

    const fn with(mut self, flags: Flags) -> Self {
        self.flags = self.flags.and(flags);
        self
    }

    const fn by(mut self, shards: Shards) -> Self {
        self.shards = shards;
        self
    }

    /// The reply may wait for other clients.
    const fn blocking(mut self) -> Self {
        self.own_categories = self.own_categories.and(Categories::BLOCKING);
        self.with(Flags::BLOCKING)
    }

    const fn within(mut self, categories: Categories) -> Self {
        self.own_categories = categories;
        self
    }

    /// A container has no categories of its own: only its subcommands do something.
    const fn containing(mut self, subcommands: &'static [Self]) -> Self {
        self.subcommands = subcommands;
        self.within(Categories::NONE)
    }

    /// Whether some server accepts this number of arguments, including the name. Every server
    /// refuses other numbers before it accesses a key.
    #[inline]
    pub fn accepts(&self, arguments: usize) -> bool {
        let required = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= required } else { arguments == required }
    }
}

/// The row of a request, or of its subcommand; `None` for an unknown command, which must count as a
/// write to everything.
///
/// A container without a subcommand has its own row: the server refuses such a call.
#[inline]
pub fn find(request: &Request<'_>) -> Option<&'static Command> {
    let command = lookup(request.name())?;
    if command.subcommands.is_empty() {
        return Some(command);
    }
    let Some(subcommand) = request.argument(1) else { return Some(command) };
    command.subcommands.iter().find(|row| row.is_subcommand(subcommand))
}

/// The row of a command name in any case; subcommands are not searched.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    index::lookup(name)
}

/// The row of this name in lower case, for a subcommand `container|sub`. For tables that extend
/// this one at compile time; [`lookup`] is for names sent by clients.
pub const fn named(name: &str) -> Option<Command> {
    let mut groups = table::GROUPS;
    while let [group, rest @ ..] = groups {
        let found = among(group, name.as_bytes());
        if found.is_some() {
            return found;
        }
        groups = rest;
    }
    None
}

/// The row of this name among these rows and their subcommands.
const fn among(mut rows: &[Command], name: &[u8]) -> Option<Command> {
    while let [row, rest @ ..] = rows {
        if is_same(row.name.as_bytes(), name) {
            return Some(*row);
        }
        let found = among(row.subcommands, name);
        if found.is_some() {
            return found;
        }
        rows = rest;
    }
    None
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    while let ([a, one_rest @ ..], [b, other_rest @ ..]) = (one, other) {
        if *a != *b {
            return false;
        }
        (one, other) = (one_rest, other_rest);
    }
    true
}

/// Every row except those of subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    table::GROUPS.iter().copied().flatten()
}

impl Command {
    fn is_subcommand(&self, name: &[u8]) -> bool {
        let (_, own) = self.name.split_once('|').unwrap_or_default();
        own.as_bytes().eq_ignore_ascii_case(name)
    }
}

#[cfg(test)]
mod tests;
