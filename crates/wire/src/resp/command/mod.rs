//! The effect of each command on its keys, as a table.
//!
//! The rows follow the servers' own tables (Redis 7.2 to 8, Valkey 8 and 9) and are checked
//! against a real server in `tests/command_table_agrees_with_the_server.rs`. `enroute db` extends
//! these rows and serves by them. The effects are ours:
//! they answer what a cache has to know. Where a row could be read two ways, it is the way that
//! caches less.
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
mod table;

pub use self::categories::Categories;
pub use self::flags::Flags;
pub use self::keys::{KeyIter, Keys};
use super::Request;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Lower case; a sub-command stands behind its container: `client|tracking`.
    pub name: &'static str,
    /// Arguments with the name counted (and the sub-command): exactly `n`, or at least `-n`. Where
    /// versions of the servers differ, the widest.
    pub arity: i8,
    /// The effect on a cache.
    pub effect: Effect,
    /// The positions of its keys.
    pub keys: Keys,
    /// Properties beside the effect.
    pub flags: Flags,
    /// Its categories beside those that follow from its flags.
    own_categories: Categories,
    /// Rows of its sub-commands, if the first argument names one.
    pub subcommands: &'static [Self],
}

/// The effect of a command on a cache in front of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Reads one key and nothing else: the reply depends on the value and the arguments alone,
    /// until the key is written.
    Read,
    /// The same for several keys; [`Split`] says whether the reply falls apart by key.
    ReadMany(Split),
    /// Reads what changes without a write (time, a cursor, chance, statistics, the whole key
    /// space), or runs code. The reply must not be kept.
    ReadUncacheable,
    /// May change its [`keys`](Command::keys), and only those: deletes, expiries and reads that
    /// remove or touch are writes too.
    Write,
    /// May change every key of the selected database.
    WriteDatabase,
    /// May change any key of any database, or which data the server holds at all.
    WriteEverything,
    /// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
    Transaction,
    /// Changes or shows the state of this connection: user, database, protocol, tracking, whether
    /// replies come at all.
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

    /// Whether values may have changed when it is done.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteDatabase | Self::WriteEverything)
    }
}

/// The rule by which the reply to a read of several keys is composed from those of single keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// An array; element `i` depends on key `i` alone (MGET).
    Elements,
    /// An integer; the sum over the keys, one named twice counting twice (EXISTS).
    Sum,
    /// Depends on all keys together (SINTER, LCS).
    Whole,
}

impl Command {
    /// A row in no category of its own.
    const fn new(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Self {
        let own_categories = Categories::NONE;
        Self { name, arity, effect, keys, flags, own_categories, subcommands: &[] }
    }

    const fn with(mut self, flags: Flags) -> Self {
        self.flags = self.flags.and(flags);
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

    /// A container is in no category of its own: what is done is its sub-commands'.
    const fn containing(mut self, subcommands: &'static [Self]) -> Self {
        self.subcommands = subcommands;
        self.within(Categories::NONE)
    }

    /// Whether some server takes this number of arguments, the name counted. Every server refuses
    /// others before it touches a key.
    #[inline]
    pub fn accepts(&self, arguments: usize) -> bool {
        let required = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= required } else { arguments == required }
    }
}

/// The row of a request, down to its sub-command; `None` for what the table does not know, which
/// has to count as a write to everything.
///
/// A container called without sub-command is its own row: the server refuses such a call.
#[inline]
pub fn find(request: &Request<'_>) -> Option<&'static Command> {
    let command = lookup(request.name())?;
    if command.subcommands.is_empty() {
        return Some(command);
    }
    let Some(subcommand) = request.argument(1) else { return Some(command) };
    command.subcommands.iter().find(|row| row.is_subcommand(subcommand))
}

/// The row of a command name in any case, sub-commands left aside.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    index::lookup(name)
}

/// The row of this name in small letters, a sub-command's written `container|sub`: for tables that
/// extend this one, in the compiler. [`lookup`] is for names of clients.
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

/// The row of this name among these and their sub-commands.
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

/// Every row but those of sub-commands.
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
