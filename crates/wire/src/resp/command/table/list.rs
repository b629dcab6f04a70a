//! Lists.

use super::super::Effect::{Read, Write};
use super::super::{Command, Flags, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("blmove", 6, Write, Keys::FIRST_TWO).with(Flags::BLOCKING),
    Command::new("blmpop", -5, Write, Keys::counted(2)).with(Flags::BLOCKING),
    Command::new("blpop", -3, Write, Keys::ALL_BUT_LAST).with(Flags::BLOCKING),
    Command::new("brpop", -3, Write, Keys::ALL_BUT_LAST).with(Flags::BLOCKING),
    Command::new("brpoplpush", 4, Write, Keys::FIRST_TWO).with(Flags::BLOCKING),
    Command::new("lindex", 3, Read, Keys::FIRST),
    Command::new("linsert", 5, Write, Keys::FIRST),
    Command::new("llen", 2, Read, Keys::FIRST),
    Command::new("lmove", 5, Write, Keys::FIRST_TWO),
    Command::new("lmpop", -4, Write, Keys::counted(1)),
    Command::new("lpop", -2, Write, Keys::FIRST),
    Command::new("lpos", -3, Read, Keys::FIRST),
    Command::new("lpush", -3, Write, Keys::FIRST),
    Command::new("lpushx", -3, Write, Keys::FIRST),
    Command::new("lrange", 4, Read, Keys::FIRST),
    Command::new("lrem", 4, Write, Keys::FIRST),
    Command::new("lset", 4, Write, Keys::FIRST),
    Command::new("ltrim", 4, Write, Keys::FIRST),
    Command::new("rpop", -2, Write, Keys::FIRST),
    Command::new("rpoplpush", 3, Write, Keys::FIRST_TWO),
    Command::new("rpush", -3, Write, Keys::FIRST),
    Command::new("rpushx", -3, Write, Keys::FIRST),
];
