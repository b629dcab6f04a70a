//! Strings, with bitmaps and HyperLogLogs, which are strings too.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Command, Keys};
use super::{ELEMENTS, WHOLE};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("append", 3, Write, Keys::FIRST),
    Command::new("bitcount", -2, Read, Keys::FIRST),
    // Also with GET alone, which is what BITFIELD_RO is for.
    Command::new("bitfield", -2, Write, Keys::FIRST),
    Command::new("bitfield_ro", -2, Read, Keys::FIRST),
    Command::new("bitop", -4, Write, Keys::FROM_SECOND),
    Command::new("bitpos", -3, Read, Keys::FIRST),
    Command::new("decr", 2, Write, Keys::FIRST),
    Command::new("decrby", 3, Write, Keys::FIRST),
    // Redis 8.4.
    Command::new("delex", -2, Write, Keys::FIRST),
    Command::new("delifeq", 3, Write, Keys::FIRST),
    // Redis 8.4.
    Command::new("digest", 2, ReadUncacheable, Keys::FIRST),
    Command::new("get", 2, Read, Keys::FIRST),
    Command::new("getbit", 3, Read, Keys::FIRST),
    Command::new("getdel", 2, Write, Keys::FIRST),
    Command::new("getex", -2, Write, Keys::FIRST),
    Command::new("getrange", 4, Read, Keys::FIRST),
    Command::new("getset", 3, Write, Keys::FIRST),
    Command::new("incr", 2, Write, Keys::FIRST),
    Command::new("incrby", 3, Write, Keys::FIRST),
    Command::new("incrbyfloat", 3, Write, Keys::FIRST),
    Command::new("lcs", -3, WHOLE, Keys::FIRST_TWO),
    Command::new("mget", -2, ELEMENTS, Keys::ALL),
    Command::new("mset", -3, Write, Keys::PAIRS),
    Command::new("msetex", -4, Write, Keys::Counted { count: 1, step: 2, destination: None }),
    Command::new("msetnx", -3, Write, Keys::PAIRS),
    Command::new("pfadd", -2, Write, Keys::FIRST),
    // A read to the server, but it stores the count it made inside the value, which GET shows.
    Command::new("pfcount", -2, Write, Keys::ALL),
    Command::new("pfdebug", 3, Write, Keys::SECOND),
    Command::new("pfmerge", -2, Write, Keys::ALL),
    Command::new("pfselftest", 1, ReadUncacheable, Keys::None),
    Command::new("psetex", 4, Write, Keys::FIRST),
    Command::new("set", -3, Write, Keys::FIRST),
    Command::new("setbit", 4, Write, Keys::FIRST),
    Command::new("setex", 4, Write, Keys::FIRST),
    Command::new("setnx", 3, Write, Keys::FIRST),
    Command::new("setrange", 4, Write, Keys::FIRST),
    Command::new("strlen", 2, Read, Keys::FIRST),
    Command::new("substr", 4, Read, Keys::FIRST),
];
