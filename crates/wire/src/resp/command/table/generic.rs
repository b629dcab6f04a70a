//! Keys of any type.

use super::super::Effect::{Other, Read, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys, Merge, Shards};
use super::{ALWAYS, NONE, R, RF, SUM, SUM_OF_KEYS, W, WF, WM};

const AT_RISK: Categories = Categories::KEYSPACE.and(Categories::DANGEROUS);
const SORTED: Categories =
    Categories::DANGEROUS.and(Categories::LIST).and(Categories::SET).and(Categories::SORTEDSET);

pub(super) const COMMANDS: &[Command] = &[
    row("copy", -3, Write, Keys::FIRST_TWO, WM).with(Flags::OTHER_DATABASE),
    row("del", -2, Write, Keys::ALL, W).by(SUM_OF_KEYS),
    // The serialized form may change with the encoding, not only with the value.
    row("dump", 2, ReadUncacheable, Keys::FIRST, R),
    row("exists", -2, SUM, Keys::ALL, RF).by(SUM_OF_KEYS),
    row("expire", -3, Write, Keys::FIRST, WF),
    row("expireat", -3, Write, Keys::FIRST, WF),
    row("expiretime", 2, ReadUncacheable, Keys::FIRST, RF),
    row("keys", 2, ReadUncacheable, Keys::None, R).within(AT_RISK).by(Shards::All(Merge::Union)),
    row("migrate", -6, Write, Keys::Migrate, W).within(AT_RISK),
    row("move", 3, Write, Keys::FIRST, WF).with(Flags::OTHER_DATABASE),
    row("object", -2, ReadUncacheable, Keys::None, NONE).containing(OBJECT),
    row("persist", 2, Write, Keys::FIRST, WF),
    row("pexpire", -3, Write, Keys::FIRST, WF),
    row("pexpireat", -3, Write, Keys::FIRST, WF),
    row("pexpiretime", 2, ReadUncacheable, Keys::FIRST, RF),
    row("pttl", 2, ReadUncacheable, Keys::FIRST, RF),
    row("randomkey", 1, ReadUncacheable, Keys::None, R),
    row("rename", 3, Write, Keys::FIRST_TWO, W),
    row("renamenx", 3, Write, Keys::FIRST_TWO, WF),
    row("restore", -4, Write, Keys::FIRST, WM).within(AT_RISK),
    row("scan", -2, ReadUncacheable, Keys::None, R),
    row("sort", -2, Write, Keys::SortStore, WM).within(SORTED),
    // BY and GET read keys that are named only by values.
    row("sort_ro", -2, ReadUncacheable, Keys::FIRST, R).within(SORTED),
    // Changes the time of last use of the key.
    row("touch", -2, ReadUncacheable, Keys::ALL, RF).by(SUM_OF_KEYS),
    row("ttl", 2, ReadUncacheable, Keys::FIRST, RF),
    row("type", 2, Read, Keys::FIRST, RF),
    row("unlink", -2, Write, Keys::ALL, WF).by(SUM_OF_KEYS),
];

const OBJECT: &[Command] = &[
    row("object|encoding", 3, ReadUncacheable, Keys::SECOND, R),
    row("object|freq", 3, ReadUncacheable, Keys::SECOND, R),
    row("object|help", 2, Other, Keys::None, ALWAYS),
    row("object|idletime", 3, ReadUncacheable, Keys::SECOND, R),
    row("object|refcount", 3, ReadUncacheable, Keys::SECOND, R),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::KEYSPACE)
}
