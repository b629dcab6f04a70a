//! Sorted sets.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Command, Flags, Keys};
use super::WHOLE;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("bzmpop", -5, Write, Keys::counted(2)).with(Flags::BLOCKING),
    Command::new("bzpopmax", -3, Write, Keys::ALL_BUT_LAST).with(Flags::BLOCKING),
    Command::new("bzpopmin", -3, Write, Keys::ALL_BUT_LAST).with(Flags::BLOCKING),
    Command::new("zadd", -4, Write, Keys::FIRST),
    Command::new("zcard", 2, Read, Keys::FIRST),
    Command::new("zcount", 4, Read, Keys::FIRST),
    Command::new("zdiff", -3, WHOLE, Keys::counted(1)),
    Command::new("zdiffstore", -4, Write, Keys::DESTINATION_COUNTED),
    Command::new("zincrby", 4, Write, Keys::FIRST),
    Command::new("zinter", -3, WHOLE, Keys::counted(1)),
    Command::new("zintercard", -3, WHOLE, Keys::counted(1)),
    Command::new("zinterstore", -4, Write, Keys::DESTINATION_COUNTED),
    Command::new("zlexcount", 4, Read, Keys::FIRST),
    Command::new("zmpop", -4, Write, Keys::counted(1)),
    Command::new("zmscore", -3, Read, Keys::FIRST),
    Command::new("zpopmax", -2, Write, Keys::FIRST),
    Command::new("zpopmin", -2, Write, Keys::FIRST),
    Command::new("zrandmember", -2, ReadUncacheable, Keys::FIRST),
    Command::new("zrange", -4, Read, Keys::FIRST),
    Command::new("zrangebylex", -4, Read, Keys::FIRST),
    Command::new("zrangebyscore", -4, Read, Keys::FIRST),
    Command::new("zrangestore", -5, Write, Keys::FIRST_TWO),
    Command::new("zrank", -3, Read, Keys::FIRST),
    Command::new("zrem", -3, Write, Keys::FIRST),
    Command::new("zremrangebylex", 4, Write, Keys::FIRST),
    Command::new("zremrangebyrank", 4, Write, Keys::FIRST),
    Command::new("zremrangebyscore", 4, Write, Keys::FIRST),
    Command::new("zrevrange", -4, Read, Keys::FIRST),
    Command::new("zrevrangebylex", -4, Read, Keys::FIRST),
    Command::new("zrevrangebyscore", -4, Read, Keys::FIRST),
    Command::new("zrevrank", -3, Read, Keys::FIRST),
    Command::new("zscan", -3, ReadUncacheable, Keys::FIRST),
    Command::new("zscore", 3, Read, Keys::FIRST),
    Command::new("zunion", -3, WHOLE, Keys::counted(1)),
    Command::new("zunionstore", -4, Write, Keys::DESTINATION_COUNTED),
];
