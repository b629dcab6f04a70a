//! Streams.

use super::super::Effect::{Other, Read, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{ALWAYS, NONE, R, RF, W, WF, WM, WMF};

pub(super) const COMMANDS: &[Command] = &[
    row("xack", -4, Write, Keys::FIRST, WF),
    // Redis 8.2.
    row("xackdel", -6, Write, Keys::FIRST, WF),
    row("xadd", -5, Write, Keys::FIRST, WMF),
    row("xautoclaim", -6, Write, Keys::FIRST, WF),
    row("xclaim", -6, Write, Keys::FIRST, WF),
    row("xdel", -3, Write, Keys::FIRST, WF),
    // Redis 8.2.
    row("xdelex", -5, Write, Keys::FIRST, WF),
    row("xgroup", -2, Other, Keys::None, NONE).containing(XGROUP),
    row("xinfo", -2, Other, Keys::None, NONE).containing(XINFO),
    row("xlen", 2, Read, Keys::FIRST, RF),
    // Shows how long messages have been waiting.
    row("xpending", -3, ReadUncacheable, Keys::FIRST, R),
    row("xrange", -4, Read, Keys::FIRST, R),
    row("xread", -4, ReadUncacheable, Keys::Streams, R).blocking(),
    row("xreadgroup", -7, Write, Keys::Streams, W).blocking(),
    row("xrevrange", -4, Read, Keys::FIRST, R),
    row("xsetid", -3, Write, Keys::FIRST, WMF),
    row("xtrim", -4, Write, Keys::FIRST, W),
];

const XGROUP: &[Command] = &[
    row("xgroup|create", -5, Write, Keys::SECOND, WM),
    row("xgroup|createconsumer", 5, Write, Keys::SECOND, WM),
    row("xgroup|delconsumer", 5, Write, Keys::SECOND, W),
    row("xgroup|destroy", 4, Write, Keys::SECOND, W),
    row("xgroup|help", 2, Other, Keys::None, ALWAYS),
    row("xgroup|setid", -5, Write, Keys::SECOND, W),
];

const XINFO: &[Command] = &[
    row("xinfo|consumers", 4, ReadUncacheable, Keys::SECOND, R),
    row("xinfo|groups", 3, ReadUncacheable, Keys::SECOND, R),
    row("xinfo|help", 2, Other, Keys::None, ALWAYS),
    row("xinfo|stream", -3, ReadUncacheable, Keys::SECOND, R),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::STREAM)
}
