//! Code that runs on the server.

use super::super::Effect::{Connection, Other, ReadUncacheable, Write};
use super::super::{Command, Effect, Flags, Keys};

pub(super) const COMMANDS: &[Command] = &[
    script("eval", Write).with(Flags::OTHER_DATABASE),
    script("eval_ro", ReadUncacheable),
    script("evalsha", Write).with(Flags::OTHER_DATABASE),
    script("evalsha_ro", ReadUncacheable),
    script("fcall", Write).with(Flags::OTHER_DATABASE),
    script("fcall_ro", ReadUncacheable),
    Command::new("function", -2, Other, Keys::None).containing(FUNCTION),
    Command::new("script", -2, Other, Keys::None).containing(SCRIPT),
];

// They change code, not values; what code replies is never kept.
const FUNCTION: &[Command] = &[
    Command::new("function|delete", 3, Other, Keys::None),
    Command::new("function|dump", 2, Other, Keys::None),
    Command::new("function|flush", -2, Other, Keys::None),
    Command::new("function|help", 2, Other, Keys::None),
    Command::new("function|kill", 2, Other, Keys::None),
    Command::new("function|list", -2, Other, Keys::None),
    Command::new("function|load", -3, Other, Keys::None),
    Command::new("function|restore", -3, Other, Keys::None),
    Command::new("function|stats", 2, Other, Keys::None),
];

const SCRIPT: &[Command] = &[
    // Makes this connection a debugger's.
    Command::new("script|debug", -3, Connection, Keys::None),
    Command::new("script|exists", -3, Other, Keys::None),
    Command::new("script|flush", -2, Other, Keys::None),
    Command::new("script|help", 2, Other, Keys::None),
    Command::new("script|kill", 2, Other, Keys::None),
    Command::new("script|load", 3, Other, Keys::None),
    Command::new("script|show", 3, Other, Keys::None),
];

/// A call of code with a count and keys behind its name or digest. What a script marked read-only
/// replies may still depend on time and chance.
const fn script(name: &'static str, effect: Effect) -> Command {
    Command::new(name, -3, effect, Keys::counted(2)).with(Flags::SCRIPT)
}
