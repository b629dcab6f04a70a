//! Sets.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{R, RF, WF, WHOLE, WM, WMF};

pub(super) const COMMANDS: &[Command] = &[
    row("sadd", -3, Write, Keys::FIRST, WMF),
    row("scard", 2, Read, Keys::FIRST, RF),
    row("sdiff", -2, WHOLE, Keys::ALL, R),
    row("sdiffstore", -3, Write, Keys::ALL, WM),
    row("sinter", -2, WHOLE, Keys::ALL, R),
    row("sintercard", -3, WHOLE, Keys::counted(1), R),
    row("sinterstore", -3, Write, Keys::ALL, WM),
    row("sismember", 3, Read, Keys::FIRST, RF),
    row("smembers", 2, Read, Keys::FIRST, R),
    row("smismember", -3, Read, Keys::FIRST, RF),
    row("smove", 4, Write, Keys::FIRST_TWO, WF),
    row("spop", -2, Write, Keys::FIRST, WF),
    row("srandmember", -2, ReadUncacheable, Keys::FIRST, R),
    row("srem", -3, Write, Keys::FIRST, WF),
    row("sscan", -3, ReadUncacheable, Keys::FIRST, R),
    row("sunion", -2, WHOLE, Keys::ALL, R),
    row("sunionstore", -3, Write, Keys::ALL, WM),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::SET)
}
