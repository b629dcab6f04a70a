//! Properties of a command that are known without executing it: the row of `wire`'s table, the
//! access to its keys, and the shards it needs. Access rules and transactions use them.

pub(crate) use wire::resp::command::Flags;
use wire::resp::command::{Command as Spec, Keys as Positions, named};

mod access;
mod group;
mod rows;
mod touch;
mod written;

pub(crate) use access::Access;
pub(crate) use group::Group;
pub(crate) use rows::Rows;
pub(crate) use touch::{Touch, Touches};
pub(crate) use written::Written;

/// One row of the table without its handler: that of wire's table, and properties needed only for
/// execution.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Name, arity, flags, categories and positions of keys.
    pub spec: Spec,
    pub(crate) group: Group,
    /// Index among all rows.
    pub(crate) place: u16,
    /// Number of rows of its sub-commands, which follow this row.
    pub(crate) subcommands: u16,
    /// Positions of its keys, and how it accesses them.
    pub(crate) keys: Keys,
    /// The shards that it needs.
    pub(crate) scope: Scope,
    /// Executed at once inside MULTI.
    pub(crate) unqueued: bool,
    /// Changes keys only by removing, so it is executed even when the disk is full.
    pub(crate) frees: bool,
    /// Given its fewest arguments, does not look at what its key held.
    pub(crate) replaces_key: bool,
    /// Maximum length of a value that it writes.
    pub(crate) written: Written,
}

impl Row {
    /// The row of wire's table of this name, with this done to its keys. It runs in the compiler: a
    /// name without a row does not build.
    pub(crate) const fn new(name: &str, group: Group, touches: Touches) -> Self {
        let spec = named(name).expect("a row of the table of `wire`");
        let keys = Keys::new(spec.keys, touches);
        let scope = if keys.first == 0 { Scope::None } else { Scope::Keys };
        Self {
            spec,
            group,
            place: 0,
            subcommands: 0,
            keys,
            scope,
            unqueued: false,
            frees: false,
            replaces_key: false,
            written: Written::Arguments(0),
        }
    }

    /// Lower-case name; a sub-command is written `container|sub`.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// Whether it has all of these flags of Redis.
    #[inline]
    pub(crate) fn is(&self, flags: Flags) -> bool {
        self.spec.flags.contains(flags)
    }

    /// Whether the command, with this number of arguments, replaces one key whatever it held. Not
    /// with options of SET, which examine the old value, and not with several keys, of which some
    /// might be replaced before another fails.
    pub(crate) fn replaces(&self, arguments: usize) -> bool {
        self.replaces_key && arguments == usize::from(self.spec.arity.unsigned_abs())
    }
}

/// Positions of keys among the arguments, counting the name as 0, and how the command accesses
/// them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    /// The first key; 0 if the command has none.
    pub(crate) first: u8,
    /// The last; negative counts from the end.
    pub(crate) last: i8,
    /// Distance between keys.
    pub(crate) step: u8,
    touches: Touches,
}

impl Keys {
    /// Keys at the positions of wire's row. Each must have an access kind: access rules would allow
    /// every user a key without one.
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

/// The shards that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// No shards.
    None,
    /// The shards of its keys.
    Keys,
    /// All of them.
    All,
}
