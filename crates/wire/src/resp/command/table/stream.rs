//! Streams.

use super::super::Effect::{Other, Read, ReadUncacheable, Write};
use super::super::{Command, Flags, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("xack", -4, Write, Keys::FIRST),
    // Redis 8.2.
    Command::new("xackdel", -6, Write, Keys::FIRST),
    Command::new("xadd", -5, Write, Keys::FIRST),
    Command::new("xautoclaim", -6, Write, Keys::FIRST),
    Command::new("xclaim", -6, Write, Keys::FIRST),
    Command::new("xdel", -3, Write, Keys::FIRST),
    // Redis 8.2.
    Command::new("xdelex", -5, Write, Keys::FIRST),
    Command::new("xgroup", -2, Other, Keys::None).containing(XGROUP),
    Command::new("xinfo", -2, Other, Keys::None).containing(XINFO),
    Command::new("xlen", 2, Read, Keys::FIRST),
    // Shows how long messages wait.
    Command::new("xpending", -3, ReadUncacheable, Keys::FIRST),
    Command::new("xrange", -4, Read, Keys::FIRST),
    Command::new("xread", -4, ReadUncacheable, Keys::Streams).with(Flags::BLOCKING),
    Command::new("xreadgroup", -7, Write, Keys::Streams).with(Flags::BLOCKING),
    Command::new("xrevrange", -4, Read, Keys::FIRST),
    Command::new("xsetid", -3, Write, Keys::FIRST),
    Command::new("xtrim", -4, Write, Keys::FIRST),
];

const XGROUP: &[Command] = &[
    Command::new("xgroup|create", -5, Write, Keys::SECOND),
    Command::new("xgroup|createconsumer", 5, Write, Keys::SECOND),
    Command::new("xgroup|delconsumer", 5, Write, Keys::SECOND),
    Command::new("xgroup|destroy", 4, Write, Keys::SECOND),
    Command::new("xgroup|help", 2, Other, Keys::None),
    Command::new("xgroup|setid", -5, Write, Keys::SECOND),
];

const XINFO: &[Command] = &[
    Command::new("xinfo|consumers", 4, ReadUncacheable, Keys::SECOND),
    Command::new("xinfo|groups", 3, ReadUncacheable, Keys::SECOND),
    Command::new("xinfo|help", 2, Other, Keys::None),
    Command::new("xinfo|stream", -3, ReadUncacheable, Keys::SECOND),
];
