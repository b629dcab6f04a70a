//! Sets.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Command, Keys};
use super::WHOLE;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, Write, Keys::FIRST),
    Command::new("scard", 2, Read, Keys::FIRST),
    Command::new("sdiff", -2, WHOLE, Keys::ALL),
    Command::new("sdiffstore", -3, Write, Keys::ALL),
    Command::new("sinter", -2, WHOLE, Keys::ALL),
    Command::new("sintercard", -3, WHOLE, Keys::counted(1)),
    Command::new("sinterstore", -3, Write, Keys::ALL),
    Command::new("sismember", 3, Read, Keys::FIRST),
    Command::new("smembers", 2, Read, Keys::FIRST),
    Command::new("smismember", -3, Read, Keys::FIRST),
    Command::new("smove", 4, Write, Keys::FIRST_TWO),
    Command::new("spop", -2, Write, Keys::FIRST),
    Command::new("srandmember", -2, ReadUncacheable, Keys::FIRST),
    Command::new("srem", -3, Write, Keys::FIRST),
    Command::new("sscan", -3, ReadUncacheable, Keys::FIRST),
    Command::new("sunion", -2, WHOLE, Keys::ALL),
    Command::new("sunionstore", -3, Write, Keys::ALL),
];
