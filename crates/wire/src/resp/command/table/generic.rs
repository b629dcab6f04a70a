//! Keys of any type.

use super::super::Effect::{Other, Read, ReadUncacheable, Write};
use super::super::{Command, Flags, Keys};
use super::SUM;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("copy", -3, Write, Keys::FIRST_TWO).with(Flags::OTHER_DATABASE),
    Command::new("del", -2, Write, Keys::ALL),
    // The serialised form may change with the encoding, not with the value only.
    Command::new("dump", 2, ReadUncacheable, Keys::FIRST),
    Command::new("exists", -2, SUM, Keys::ALL),
    Command::new("expire", -3, Write, Keys::FIRST),
    Command::new("expireat", -3, Write, Keys::FIRST),
    Command::new("expiretime", 2, ReadUncacheable, Keys::FIRST),
    Command::new("keys", 2, ReadUncacheable, Keys::None),
    Command::new("migrate", -6, Write, Keys::Migrate),
    Command::new("move", 3, Write, Keys::FIRST).with(Flags::OTHER_DATABASE),
    Command::new("object", -2, ReadUncacheable, Keys::None).containing(OBJECT),
    Command::new("persist", 2, Write, Keys::FIRST),
    Command::new("pexpire", -3, Write, Keys::FIRST),
    Command::new("pexpireat", -3, Write, Keys::FIRST),
    Command::new("pexpiretime", 2, ReadUncacheable, Keys::FIRST),
    Command::new("pttl", 2, ReadUncacheable, Keys::FIRST),
    Command::new("randomkey", 1, ReadUncacheable, Keys::None),
    Command::new("rename", 3, Write, Keys::FIRST_TWO),
    Command::new("renamenx", 3, Write, Keys::FIRST_TWO),
    Command::new("restore", -4, Write, Keys::FIRST),
    Command::new("scan", -2, ReadUncacheable, Keys::None),
    Command::new("sort", -2, Write, Keys::SortStore),
    // BY and GET read keys that only the values name.
    Command::new("sort_ro", -2, ReadUncacheable, Keys::FIRST),
    // Changes when the key was last used.
    Command::new("touch", -2, ReadUncacheable, Keys::ALL),
    Command::new("ttl", 2, ReadUncacheable, Keys::FIRST),
    Command::new("type", 2, Read, Keys::FIRST),
    Command::new("unlink", -2, Write, Keys::ALL),
];

const OBJECT: &[Command] = &[
    Command::new("object|encoding", 3, ReadUncacheable, Keys::SECOND),
    Command::new("object|freq", 3, ReadUncacheable, Keys::SECOND),
    Command::new("object|help", 2, Other, Keys::None),
    Command::new("object|idletime", 3, ReadUncacheable, Keys::SECOND),
    Command::new("object|refcount", 3, ReadUncacheable, Keys::SECOND),
];
