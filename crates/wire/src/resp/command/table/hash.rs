//! Hashes.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{R, RF, WF, WMF};

pub(super) const COMMANDS: &[Command] = &[
    row("hdel", -3, Write, Keys::FIRST, WF),
    row("hexists", 3, Read, Keys::FIRST, RF),
    row("hexpire", -6, Write, Keys::FIRST, WMF),
    row("hexpireat", -6, Write, Keys::FIRST, WMF),
    row("hexpiretime", -5, ReadUncacheable, Keys::FIRST, RF),
    row("hget", 3, Read, Keys::FIRST, RF),
    row("hgetall", 2, Read, Keys::FIRST, R),
    row("hgetdel", -5, Write, Keys::FIRST, WF),
    row("hgetex", -5, Write, Keys::FIRST, WF),
    row("hincrby", 4, Write, Keys::FIRST, WMF),
    row("hincrbyfloat", 4, Write, Keys::FIRST, WMF),
    row("hkeys", 2, Read, Keys::FIRST, R),
    row("hlen", 2, Read, Keys::FIRST, RF),
    row("hmget", -3, Read, Keys::FIRST, RF),
    row("hmset", -4, Write, Keys::FIRST, WMF),
    row("hpersist", -5, Write, Keys::FIRST, WF),
    row("hpexpire", -6, Write, Keys::FIRST, WMF),
    row("hpexpireat", -6, Write, Keys::FIRST, WMF),
    row("hpexpiretime", -5, ReadUncacheable, Keys::FIRST, RF),
    row("hpttl", -5, ReadUncacheable, Keys::FIRST, RF),
    row("hrandfield", -2, ReadUncacheable, Keys::FIRST, R),
    row("hscan", -3, ReadUncacheable, Keys::FIRST, R),
    row("hset", -4, Write, Keys::FIRST, WMF),
    row("hsetex", -6, Write, Keys::FIRST, WMF),
    row("hsetnx", 4, Write, Keys::FIRST, WMF),
    row("hstrlen", 3, Read, Keys::FIRST, RF),
    row("httl", -5, ReadUncacheable, Keys::FIRST, RF),
    row("hvals", 2, Read, Keys::FIRST, R),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::HASH)
}
