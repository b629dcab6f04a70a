//! Strings, with bitmaps and HyperLogLogs, which are strings too.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{ALL_OF_KEYS, EACH_KEY, ELEMENTS, R, RF, WF, WHOLE, WM, WMF};

pub(super) const COMMANDS: &[Command] = &[
    row("append", 3, Write, Keys::FIRST, WMF),
    row("bitcount", -2, Read, Keys::FIRST, R).within(Categories::BITMAP),
    // A write even with GET alone; BITFIELD_RO exists for that.
    row("bitfield", -2, Write, Keys::FIRST, WM).within(Categories::BITMAP),
    row("bitfield_ro", -2, Read, Keys::FIRST, RF).within(Categories::BITMAP),
    row("bitop", -4, Write, Keys::FROM_SECOND, WM).within(Categories::BITMAP),
    row("bitpos", -3, Read, Keys::FIRST, R).within(Categories::BITMAP),
    row("decr", 2, Write, Keys::FIRST, WMF),
    row("decrby", 3, Write, Keys::FIRST, WMF),
    // Redis 8.4.
    row("delex", -2, Write, Keys::FIRST, WF),
    row("delifeq", 3, Write, Keys::FIRST, WF),
    // Redis 8.4.
    row("digest", 2, ReadUncacheable, Keys::FIRST, RF),
    row("get", 2, Read, Keys::FIRST, RF),
    row("getbit", 3, Read, Keys::FIRST, RF).within(Categories::BITMAP),
    row("getdel", 2, Write, Keys::FIRST, WF),
    row("getex", -2, Write, Keys::FIRST, WF),
    row("getrange", 4, Read, Keys::FIRST, R),
    row("getset", 3, Write, Keys::FIRST, WMF),
    row("incr", 2, Write, Keys::FIRST, WMF),
    row("incrby", 3, Write, Keys::FIRST, WMF),
    row("incrbyfloat", 3, Write, Keys::FIRST, WMF),
    row("lcs", -3, WHOLE, Keys::FIRST_TWO, R),
    row("mget", -2, ELEMENTS, Keys::ALL, RF).by(EACH_KEY),
    row("mset", -3, Write, Keys::PAIRS, WM).by(ALL_OF_KEYS),
    row("msetex", -4, Write, Keys::Counted { count: 1, step: 2, destination: None }, WM),
    row("msetnx", -3, Write, Keys::PAIRS, WM),
    row("pfadd", -2, Write, Keys::FIRST, WMF).within(Categories::HYPERLOGLOG),
    // A read for the server, but it stores the computed count inside the value, which GET shows.
    row("pfcount", -2, Write, Keys::ALL, R).within(Categories::HYPERLOGLOG),
    row("pfdebug", 3, Write, Keys::SECOND, WM.and(Flags::ADMIN)).within(Categories::HYPERLOGLOG),
    row("pfmerge", -2, Write, Keys::ALL, WM).within(Categories::HYPERLOGLOG),
    row("pfselftest", 1, ReadUncacheable, Keys::None, Flags::ADMIN).within(Categories::HYPERLOGLOG),
    row("psetex", 4, Write, Keys::FIRST, WM),
    row("set", -3, Write, Keys::FIRST, WM),
    row("setbit", 4, Write, Keys::FIRST, WM).within(Categories::BITMAP),
    row("setex", 4, Write, Keys::FIRST, WM),
    row("setnx", 3, Write, Keys::FIRST, WMF),
    row("setrange", 4, Write, Keys::FIRST, WM),
    row("strlen", 2, Read, Keys::FIRST, RF),
    row("substr", 4, Read, Keys::FIRST, R),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::STRING)
}
