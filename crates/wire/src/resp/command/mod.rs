//! What each command does to which keys, as data.
//!
//! The rows follow the servers' own tables (Redis 7.2 to 8, Valkey 8 and 9) and are checked
//! against a real server in `tests/command_table_agrees_with_the_server.rs`. The effects are ours:
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

mod index;
mod keys;
mod table;

pub use self::keys::{KeyIter, Keys};
use super::Request;

/// One row of the table.
#[derive(Debug)]
pub struct Command {
    /// Lower case; a sub-command stands behind its container: `client|tracking`.
    pub name: &'static str,
    /// Arguments with the name counted (and the sub-command): exactly `n`, or at least `-n`. Where
    /// versions of the servers differ, the widest.
    pub arity: i8,
    /// What a cache has to do about it.
    pub effect: Effect,
    /// Where its keys stand.
    pub keys: Keys,
    /// Properties beside the effect.
    pub flags: Flags,
    /// Rows of its sub-commands, if the first argument names one.
    pub subcommands: &'static [Self],
}

/// What a command means for a cache in front of the server.
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

/// How the reply to a read of several keys follows from the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// An array; element `i` depends on key `i` alone (MGET).
    Elements,
    /// An integer; the sum over the keys, one named twice counting twice (EXISTS).
    Sum,
    /// Depends on all keys together (SINTER, LCS).
    Whole,
}

/// Properties beside the effect, as a small set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The reply may wait for other clients, and with it every reply behind it.
    pub const BLOCKING: Self = Self(1);
    /// Runs code on the server. It should touch its declared keys only, but a server does not
    /// force it to: a caller may treat the call as a write to everything.
    pub const SCRIPT: Self = Self(2);
    /// May write its keys in a database other than the selected one (COPY, MOVE, scripts).
    pub const OTHER_DATABASE: Self = Self(4);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Command {
    const fn new(name: &'static str, arity: i8, effect: Effect, keys: Keys) -> Self {
        Self { name, arity, effect, keys, flags: Flags::NONE, subcommands: &[] }
    }

    const fn with(mut self, flags: Flags) -> Self {
        self.flags = Flags(self.flags.0 | flags.0);
        self
    }

    const fn containing(mut self, subcommands: &'static [Self]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Whether some server takes this number of arguments, the name counted. Every server refuses
    /// others before it touches a key.
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
