//! The categories of commands that access rules name: `+@read`, `-@dangerous`.

use super::{Command, Flags};

/// A set of categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Categories(u32);

/// Every category in the order of Redis; its position is its bit.
const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

const fn at(place: u32) -> Categories {
    Categories(1 << place)
}

impl Categories {
    pub(super) const NONE: Self = Self(0);
    pub(super) const KEYSPACE: Self = at(0);
    pub(super) const READ: Self = at(1);
    pub(super) const WRITE: Self = at(2);
    pub(super) const SET: Self = at(3);
    pub(super) const SORTEDSET: Self = at(4);
    pub(super) const LIST: Self = at(5);
    pub(super) const HASH: Self = at(6);
    pub(super) const STRING: Self = at(7);
    pub(super) const BITMAP: Self = at(8);
    pub(super) const HYPERLOGLOG: Self = at(9);
    pub(super) const GEO: Self = at(10);
    pub(super) const STREAM: Self = at(11);
    pub(super) const PUBSUB: Self = at(12);
    pub(super) const ADMIN: Self = at(13);
    pub(super) const FAST: Self = at(14);
    pub(super) const SLOW: Self = at(15);
    pub(super) const BLOCKING: Self = at(16);
    pub(super) const DANGEROUS: Self = at(17);
    pub(super) const CONNECTION: Self = at(18);
    pub(super) const TRANSACTION: Self = at(19);
    pub(super) const SCRIPTING: Self = at(20);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of all categories.
    pub fn all() -> impl ExactSizeIterator<Item = &'static str> {
        NAMES.into_iter()
    }

    /// The category of this name, in lower case.
    pub fn named(name: &str) -> Option<Self> {
        (0..).zip(NAMES).find(|(_, each)| *each == name).map(|(place, _)| at(place))
    }

    /// Whether it contains all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        (0..).zip(NAMES).filter(move |(place, _)| self.contains(at(*place))).map(|(_, name)| name)
    }
}

impl Command {
    /// Its categories: those that its row names, and those that follow from its flags. They agree
    /// with Redis 7.0 for each command that Redis 7.0 has.
    pub fn categories(&self) -> Categories {
        let has = |flags| self.flags.contains(flags);
        // The reads inside a script are not counted.
        let scripting = self.own_categories.contains(Categories::SCRIPTING);
        [
            (has(Flags::READONLY) && !scripting, Categories::READ),
            (has(Flags::WRITE), Categories::WRITE),
            (has(Flags::PUBSUB), Categories::PUBSUB),
            (has(Flags::ADMIN), Categories::ADMIN.and(Categories::DANGEROUS)),
            (has(Flags::FAST), Categories::FAST),
            (!has(Flags::FAST), Categories::SLOW),
        ]
        .into_iter()
        .filter(|(within, _)| *within)
        .fold(self.own_categories, |all, (_, each)| all.and(each))
    }
}
