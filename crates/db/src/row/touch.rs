//! A command's access to each of its keys, as in Redis's key specifications.
//!
//! A command cannot be added to the table without it. Access rules, COMMAND INFO, GETKEYS and
//! GETKEYSANDFLAGS use nothing else; the test
//! `database_access_rules_are_those_of_redis_server` compares each row with redis-server. SET and
//! BITFIELD compute their access from the arguments, as Redis does, before any syntax error is
//! known. One pattern of a user must allow all accesses of a command to a key: a read pattern and a
//! separate write pattern do not add up.

use super::{Keys, Row};

/// A command's access to one key: to the key itself (RO, RW, OW, RM) and to its value as seen by
/// users (access, insert, update, delete). Access rules use only the second, as in Redis: a command
/// such as STRLEN returns nothing of the value itself and needs no right to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch(u8);

const READ_ONLY: u8 = 1;
const READ_WRITE: u8 = 1 << 1;
const OVERWRITE: u8 = 1 << 2;
const REMOVE: u8 = 1 << 3;
const ACCESS: u8 = 1 << 4;
const UPDATE: u8 = 1 << 5;
const INSERT: u8 = 1 << 6;
const DELETE: u8 = 1 << 7;

impl Touch {
    /// Looks at the key and returns nothing of its value.
    pub(crate) const LOOK: Self = Self(READ_ONLY);
    pub(crate) const READ: Self = Self(READ_ONLY | ACCESS);
    /// Changes the value and returns nothing of it.
    pub(crate) const CHANGE: Self = Self(READ_WRITE | UPDATE);
    pub(crate) const ADD: Self = Self(READ_WRITE | INSERT);
    pub(crate) const READ_CHANGE: Self = Self(READ_WRITE | ACCESS | UPDATE);
    pub(crate) const READ_DELETE: Self = Self(READ_WRITE | ACCESS | DELETE);
    pub(crate) const REPLACE: Self = Self(OVERWRITE | UPDATE);
    /// Makes the key where it is absent.
    pub(crate) const CREATE: Self = Self(OVERWRITE | INSERT);
    pub(crate) const DELETE: Self = Self(REMOVE | DELETE);

    /// Whether the answer reveals the value.
    pub(crate) const fn reads(self) -> bool {
        self.0 & ACCESS != 0
    }

    /// Whether the value can change.
    pub(crate) const fn writes(self) -> bool {
        self.0 & (UPDATE | INSERT | DELETE) != 0
    }

    /// Whether the command can leave a value behind.
    pub(crate) const fn stores(self) -> bool {
        self.0 & (UPDATE | INSERT) != 0
    }

    /// The names COMMAND INFO and COMMAND GETKEYSANDFLAGS show.
    pub(crate) fn names(self) -> Vec<&'static str> {
        const NAMES: [(u8, &str); 8] = [
            (READ_ONLY, "RO"),
            (READ_WRITE, "RW"),
            (OVERWRITE, "OW"),
            (REMOVE, "RM"),
            (ACCESS, "access"),
            (UPDATE, "update"),
            (INSERT, "insert"),
            (DELETE, "delete"),
        ];
        NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|&(_, name)| name).collect()
    }
}

/// Computes the access to keys from the arguments.
type ByArguments = fn(&[&[u8]]) -> Touch;

/// A command's access to its keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touches {
    first: Touch,
    /// Access to all keys but the first, if different.
    others: Option<Touch>,
    /// Access to every key, if it depends on the arguments; then `first` is the upper bound.
    by_arguments: Option<ByArguments>,
}

impl Touches {
    /// No keys.
    pub(crate) const NONE: Self = Self { first: Touch(0), others: None, by_arguments: None };

    /// This to all keys.
    pub(crate) const fn all(touch: Touch) -> Self {
        Self { first: touch, ..Self::NONE }
    }

    /// This to the first key, that to the others.
    pub(crate) const fn first_and_others(first: Touch, others: Touch) -> Self {
        Self { first, others: Some(others), ..Self::NONE }
    }

    /// Makes the access depend on the arguments; the access given so far becomes the upper bound.
    pub(crate) const fn or(mut self, by_arguments: ByArguments) -> Self {
        self.by_arguments = Some(by_arguments);
        self
    }

    pub(crate) const fn is_none(self) -> bool {
        self.first.0 == 0
    }
}

impl Keys {
    /// Returns the key specifications: first and last position (negative counts from the end),
    /// access, and whether that depends on the arguments.
    pub(crate) fn specifications(self) -> Vec<(u8, i8, Touch, bool)> {
        let Touches { first, others, by_arguments } = self.touches;
        let varies = by_arguments.is_some();
        match others {
            _ if self.first == 0 => Vec::new(),
            None => vec![(self.first, self.last, first, varies)],
            Some(others) => vec![
                (self.first, self.first as i8, first, varies),
                (self.first + 1, self.last, others, varies),
            ],
        }
    }
}

impl Row {
    /// Returns the positions of its keys among `args`, and the access to each.
    pub(crate) fn touched(&self, args: &[&[u8]]) -> impl Iterator<Item = (usize, Touch)> {
        let Touches { first, others, by_arguments } = self.keys.touches;
        let first = by_arguments.map_or(first, |decide| decide(args));
        let others = others.unwrap_or(first);
        let begin = usize::from(self.keys.first);
        self.keys.of(args.len()).map(move |at| (at, if at == begin { first } else { others }))
    }
}
