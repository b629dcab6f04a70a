//! Sorted sets.

use super::super::Effect::{Read, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{R, RF, W, WF, WHOLE, WM, WMF};

pub(super) const COMMANDS: &[Command] = &[
    row("bzmpop", -5, Write, Keys::counted(2), W).blocking(),
    row("bzpopmax", -3, Write, Keys::ALL_BUT_LAST, WF.and(Flags::NOSCRIPT)).blocking(),
    row("bzpopmin", -3, Write, Keys::ALL_BUT_LAST, WF.and(Flags::NOSCRIPT)).blocking(),
    row("zadd", -4, Write, Keys::FIRST, WMF),
    row("zcard", 2, Read, Keys::FIRST, RF),
    row("zcount", 4, Read, Keys::FIRST, RF),
    row("zdiff", -3, WHOLE, Keys::counted(1), R),
    row("zdiffstore", -4, Write, Keys::DESTINATION_COUNTED, WM),
    row("zincrby", 4, Write, Keys::FIRST, WMF),
    row("zinter", -3, WHOLE, Keys::counted(1), R),
    row("zintercard", -3, WHOLE, Keys::counted(1), R),
    row("zinterstore", -4, Write, Keys::DESTINATION_COUNTED, WM),
    row("zlexcount", 4, Read, Keys::FIRST, RF),
    row("zmpop", -4, Write, Keys::counted(1), W),
    row("zmscore", -3, Read, Keys::FIRST, RF),
    row("zpopmax", -2, Write, Keys::FIRST, WF),
    row("zpopmin", -2, Write, Keys::FIRST, WF),
    row("zrandmember", -2, ReadUncacheable, Keys::FIRST, R),
    row("zrange", -4, Read, Keys::FIRST, R),
    row("zrangebylex", -4, Read, Keys::FIRST, R),
    row("zrangebyscore", -4, Read, Keys::FIRST, R),
    row("zrangestore", -5, Write, Keys::FIRST_TWO, WM),
    row("zrank", -3, Read, Keys::FIRST, RF),
    row("zrem", -3, Write, Keys::FIRST, WF),
    row("zremrangebylex", 4, Write, Keys::FIRST, W),
    row("zremrangebyrank", 4, Write, Keys::FIRST, W),
    row("zremrangebyscore", 4, Write, Keys::FIRST, W),
    row("zrevrange", -4, Read, Keys::FIRST, R),
    row("zrevrangebylex", -4, Read, Keys::FIRST, R),
    row("zrevrangebyscore", -4, Read, Keys::FIRST, R),
    row("zrevrank", -3, Read, Keys::FIRST, RF),
    row("zscan", -3, ReadUncacheable, Keys::FIRST, R),
    row("zscore", 3, Read, Keys::FIRST, RF),
    row("zunion", -3, WHOLE, Keys::counted(1), R),
    row("zunionstore", -4, Write, Keys::DESTINATION_COUNTED, WM),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::SORTEDSET)
}
