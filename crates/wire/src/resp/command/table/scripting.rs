//! Code that runs on the server.

use super::super::Effect::{Connection, Other, ReadUncacheable, Write};
use super::super::{Categories, Command, Effect, Flags, Keys, Merge, Shards};
use super::{ALWAYS, EVERY, NONE, R, W, WM};

pub(super) const COMMANDS: &[Command] = &[
    script("eval", Write, CODE).with(Flags::OTHER_DATABASE),
    script("eval_ro", ReadUncacheable, CODE.and(R)),
    script("evalsha", Write, CODE).with(Flags::OTHER_DATABASE),
    script("evalsha_ro", ReadUncacheable, CODE.and(R)),
    script("fcall", Write, CODE).with(Flags::OTHER_DATABASE),
    script("fcall_ro", ReadUncacheable, CODE.and(R)),
    row("function", -2, Other, Keys::None, NONE).containing(FUNCTION),
    row("script", -2, Other, Keys::None, NONE).containing(SCRIPT),
];

// They change code, not values; replies of code are never stored.
const FUNCTION: &[Command] = &[
    row("function|delete", 3, Other, Keys::None, W.and(Flags::NOSCRIPT)).by(EVERY),
    row("function|dump", 2, Other, Keys::None, Flags::NOSCRIPT),
    row("function|flush", -2, Other, Keys::None, W.and(Flags::NOSCRIPT)).by(EVERY),
    row("function|help", 2, Other, Keys::None, ALWAYS),
    row("function|kill", 2, Other, Keys::None, Flags::NOSCRIPT),
    row("function|list", -2, Other, Keys::None, Flags::NOSCRIPT),
    row("function|load", -3, Other, Keys::None, WM.and(Flags::NOSCRIPT)).by(EVERY),
    row("function|restore", -3, Other, Keys::None, WM.and(Flags::NOSCRIPT)).by(EVERY),
    row("function|stats", 2, Other, Keys::None, Flags::NOSCRIPT),
];

const SCRIPT: &[Command] = &[
    // Turns this connection into a debugging session.
    row("script|debug", -3, Connection, Keys::None, Flags::NOSCRIPT),
    row("script|exists", -3, Other, Keys::None, Flags::NOSCRIPT).by(Shards::All(Merge::And)),
    row("script|flush", -2, Other, Keys::None, Flags::NOSCRIPT).by(EVERY),
    row("script|help", 2, Other, Keys::None, ALWAYS),
    row("script|kill", 2, Other, Keys::None, Flags::NOSCRIPT),
    row("script|load", 3, Other, Keys::None, Flags::NOSCRIPT.and(Flags::STALE)).by(EVERY),
    row("script|show", 3, Other, Keys::None, Flags::NOSCRIPT),
];

const CODE: Flags = Flags::NOSCRIPT.and(Flags::STALE);

/// A call of code with a count and keys after its name or digest. The reply of a read-only script
/// may still depend on time and random numbers.
const fn script(name: &'static str, effect: Effect, flags: Flags) -> Command {
    row(name, -3, effect, Keys::counted(2), flags.and(Flags::SCRIPT))
}

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::SCRIPTING)
}
