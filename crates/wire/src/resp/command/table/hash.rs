//! Hashes.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Command, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("hdel", -3, Write, Keys::FIRST),
    Command::new("hexists", 3, Read, Keys::FIRST),
    Command::new("hexpire", -6, Write, Keys::FIRST),
    Command::new("hexpireat", -6, Write, Keys::FIRST),
    Command::new("hexpiretime", -5, ReadUncacheable, Keys::FIRST),
    Command::new("hget", 3, Read, Keys::FIRST),
    Command::new("hgetall", 2, Read, Keys::FIRST),
    Command::new("hgetdel", -5, Write, Keys::FIRST),
    Command::new("hgetex", -5, Write, Keys::FIRST),
    Command::new("hincrby", 4, Write, Keys::FIRST),
    Command::new("hincrbyfloat", 4, Write, Keys::FIRST),
    Command::new("hkeys", 2, Read, Keys::FIRST),
    Command::new("hlen", 2, Read, Keys::FIRST),
    Command::new("hmget", -3, Read, Keys::FIRST),
    Command::new("hmset", -4, Write, Keys::FIRST),
    Command::new("hpersist", -5, Write, Keys::FIRST),
    Command::new("hpexpire", -6, Write, Keys::FIRST),
    Command::new("hpexpireat", -6, Write, Keys::FIRST),
    Command::new("hpexpiretime", -5, ReadUncacheable, Keys::FIRST),
    Command::new("hpttl", -5, ReadUncacheable, Keys::FIRST),
    Command::new("hrandfield", -2, ReadUncacheable, Keys::FIRST),
    Command::new("hscan", -3, ReadUncacheable, Keys::FIRST),
    Command::new("hset", -4, Write, Keys::FIRST),
    Command::new("hsetex", -6, Write, Keys::FIRST),
    Command::new("hsetnx", 4, Write, Keys::FIRST),
    Command::new("hstrlen", 3, Read, Keys::FIRST),
    Command::new("httl", -5, ReadUncacheable, Keys::FIRST),
    Command::new("hvals", 2, Read, Keys::FIRST),
];
