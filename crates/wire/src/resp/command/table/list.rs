//! Lists.

use super::super::Effect::{Read, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{R, RF, W, WF, WM, WMF};

pub(super) const COMMANDS: &[Command] = &[
    row("blmove", 6, Write, Keys::FIRST_TWO, WM.and(Flags::NOSCRIPT)).blocking(),
    row("blmpop", -5, Write, Keys::counted(2), W).blocking(),
    row("blpop", -3, Write, Keys::ALL_BUT_LAST, W.and(Flags::NOSCRIPT)).blocking(),
    row("brpop", -3, Write, Keys::ALL_BUT_LAST, W.and(Flags::NOSCRIPT)).blocking(),
    row("brpoplpush", 4, Write, Keys::FIRST_TWO, WM.and(Flags::NOSCRIPT)).blocking(),
    row("lindex", 3, Read, Keys::FIRST, R),
    row("linsert", 5, Write, Keys::FIRST, WM),
    row("llen", 2, Read, Keys::FIRST, RF),
    row("lmove", 5, Write, Keys::FIRST_TWO, WM),
    row("lmpop", -4, Write, Keys::counted(1), W),
    row("lpop", -2, Write, Keys::FIRST, WF),
    row("lpos", -3, Read, Keys::FIRST, R),
    row("lpush", -3, Write, Keys::FIRST, WMF),
    row("lpushx", -3, Write, Keys::FIRST, WMF),
    row("lrange", 4, Read, Keys::FIRST, R),
    row("lrem", 4, Write, Keys::FIRST, W),
    row("lset", 4, Write, Keys::FIRST, WM),
    row("ltrim", 4, Write, Keys::FIRST, W),
    row("rpop", -2, Write, Keys::FIRST, WF),
    row("rpoplpush", 3, Write, Keys::FIRST_TWO, WM),
    row("rpush", -3, Write, Keys::FIRST, WMF),
    row("rpushx", -3, Write, Keys::FIRST, WMF),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::LIST)
}
