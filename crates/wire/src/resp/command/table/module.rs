//! Modules that ship with the servers: JSON and Bloom filters. A command of any other module is
//! unknown here and counts as a write to everything.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Command, Keys};
use super::{ELEMENTS, R, RF, W, WM, WMF};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("bf.add", 3, Write, Keys::FIRST, WMF),
    Command::new("bf.card", 2, Read, Keys::FIRST, RF),
    Command::new("bf.exists", 3, Read, Keys::FIRST, RF),
    Command::new("bf.info", -2, Read, Keys::FIRST, RF),
    Command::new("bf.insert", -4, Write, Keys::FIRST, WMF),
    Command::new("bf.loadchunk", 4, Write, Keys::FIRST, WM),
    Command::new("bf.madd", -3, Write, Keys::FIRST, WMF),
    Command::new("bf.mexists", -3, Read, Keys::FIRST, RF),
    Command::new("bf.reserve", -4, Write, Keys::FIRST, WMF),
    Command::new("bf.scandump", 3, ReadUncacheable, Keys::FIRST, R),
    Command::new("json.arrappend", -4, Write, Keys::FIRST, WM),
    Command::new("json.arrindex", -4, Read, Keys::FIRST, R),
    Command::new("json.arrinsert", -5, Write, Keys::FIRST, WM),
    Command::new("json.arrlen", -2, Read, Keys::FIRST, R),
    Command::new("json.arrpop", -2, Write, Keys::FIRST, W),
    Command::new("json.arrtrim", 5, Write, Keys::FIRST, W),
    Command::new("json.clear", -2, Write, Keys::FIRST, W),
    Command::new("json.del", -2, Write, Keys::FIRST, W),
    Command::new("json.forget", -2, Write, Keys::FIRST, W),
    Command::new("json.get", -2, Read, Keys::FIRST, R),
    Command::new("json.merge", 4, Write, Keys::FIRST, WM),
    Command::new("json.mget", -3, ELEMENTS, Keys::ALL_BUT_LAST, R),
    Command::new("json.mset", -4, Write, Keys::TRIPLES, WM),
    Command::new("json.numincrby", 4, Write, Keys::FIRST, WM),
    Command::new("json.nummultby", 4, Write, Keys::FIRST, WM),
    Command::new("json.objkeys", -2, Read, Keys::FIRST, R),
    Command::new("json.objlen", -2, Read, Keys::FIRST, R),
    Command::new("json.resp", -2, Read, Keys::FIRST, R),
    Command::new("json.set", -4, Write, Keys::FIRST, WM),
    Command::new("json.strappend", -3, Write, Keys::FIRST, WM),
    Command::new("json.strlen", -2, Read, Keys::FIRST, R),
    Command::new("json.toggle", 3, Write, Keys::FIRST, WM),
    Command::new("json.type", -2, Read, Keys::FIRST, R),
];
