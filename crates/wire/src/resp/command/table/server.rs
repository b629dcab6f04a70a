//! The server itself.

use super::super::Effect::{
    Access, Other, PubSub, ReadUncacheable, Write, WriteDatabase, WriteEverything,
};
use super::super::{Command, Flags, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("acl", -2, Other, Keys::None).containing(ACL),
    Command::new("bgrewriteaof", 1, Other, Keys::None),
    Command::new("bgsave", -1, Other, Keys::None),
    Command::new("command", -1, Other, Keys::None).containing(COMMAND),
    Command::new("commandlog", -2, Other, Keys::None).containing(COMMANDLOG),
    Command::new("config", -2, Other, Keys::None).containing(CONFIG),
    Command::new("dbsize", 1, ReadUncacheable, Keys::None),
    Command::new("debug", -2, WriteEverything, Keys::None),
    Command::new("failover", -1, WriteEverything, Keys::None),
    Command::new("flushall", -1, WriteEverything, Keys::None),
    Command::new("flushdb", -1, WriteDatabase, Keys::None),
    Command::new("info", -1, Other, Keys::None),
    Command::new("lastsave", 1, Other, Keys::None),
    Command::new("latency", -2, Other, Keys::None).containing(LATENCY),
    Command::new("lolwut", -1, Other, Keys::None),
    Command::new("memory", -2, Other, Keys::None).containing(MEMORY),
    Command::new("module", -2, WriteEverything, Keys::None).containing(MODULE),
    Command::new("monitor", 1, PubSub, Keys::None),
    Command::new("psync", -3, PubSub, Keys::None),
    // Speaks the language of a replica; ACK has no reply.
    Command::new("replconf", -1, PubSub, Keys::None),
    Command::new("replicaof", 3, WriteEverything, Keys::None),
    Command::new("restore-asking", -4, Write, Keys::FIRST),
    Command::new("role", 1, Other, Keys::None),
    Command::new("save", 1, Other, Keys::None),
    // The server may come back with an older snapshot.
    Command::new("shutdown", -1, WriteEverything, Keys::None),
    Command::new("slaveof", 3, WriteEverything, Keys::None),
    Command::new("slowlog", -2, Other, Keys::None).containing(SLOWLOG),
    Command::new("swapdb", 3, WriteEverything, Keys::None),
    Command::new("sync", 1, PubSub, Keys::None),
    Command::new("time", 1, ReadUncacheable, Keys::None),
    Command::new("wait", 3, Other, Keys::None).with(Flags::BLOCKING),
    Command::new("waitaof", 4, Other, Keys::None).with(Flags::BLOCKING),
];

const ACL: &[Command] = &[
    Command::new("acl|cat", -2, Other, Keys::None),
    Command::new("acl|deluser", -3, Access, Keys::None),
    Command::new("acl|dryrun", -4, Other, Keys::None),
    Command::new("acl|genpass", -2, Other, Keys::None),
    Command::new("acl|getuser", 3, Other, Keys::None),
    Command::new("acl|help", 2, Other, Keys::None),
    Command::new("acl|list", 2, Other, Keys::None),
    Command::new("acl|load", 2, Access, Keys::None),
    Command::new("acl|log", -2, Other, Keys::None),
    Command::new("acl|save", 2, Other, Keys::None),
    Command::new("acl|setuser", -3, Access, Keys::None),
    Command::new("acl|users", 2, Other, Keys::None),
    Command::new("acl|whoami", 2, Other, Keys::None),
];

const COMMAND: &[Command] = &[
    Command::new("command|count", 2, Other, Keys::None),
    Command::new("command|docs", -2, Other, Keys::None),
    Command::new("command|getkeys", -3, Other, Keys::None),
    Command::new("command|getkeysandflags", -3, Other, Keys::None),
    Command::new("command|help", 2, Other, Keys::None),
    Command::new("command|info", -2, Other, Keys::None),
    Command::new("command|list", -2, Other, Keys::None),
];

const COMMANDLOG: &[Command] = &[
    Command::new("commandlog|get", 4, Other, Keys::None),
    Command::new("commandlog|help", 2, Other, Keys::None),
    Command::new("commandlog|len", 3, Other, Keys::None),
    Command::new("commandlog|reset", 3, Other, Keys::None),
];

const CONFIG: &[Command] = &[
    Command::new("config|get", -3, Other, Keys::None),
    Command::new("config|help", 2, Other, Keys::None),
    Command::new("config|resetstat", 2, Other, Keys::None),
    Command::new("config|rewrite", 2, Other, Keys::None),
    Command::new("config|set", -4, Other, Keys::None),
];

const LATENCY: &[Command] = &[
    Command::new("latency|doctor", 2, Other, Keys::None),
    Command::new("latency|graph", 3, Other, Keys::None),
    Command::new("latency|help", 2, Other, Keys::None),
    Command::new("latency|histogram", -2, Other, Keys::None),
    Command::new("latency|history", 3, Other, Keys::None),
    Command::new("latency|latest", 2, Other, Keys::None),
    Command::new("latency|reset", -2, Other, Keys::None),
];

const MEMORY: &[Command] = &[
    Command::new("memory|doctor", 2, Other, Keys::None),
    Command::new("memory|help", 2, Other, Keys::None),
    Command::new("memory|malloc-stats", 2, Other, Keys::None),
    Command::new("memory|purge", 2, Other, Keys::None),
    Command::new("memory|stats", 2, Other, Keys::None),
    Command::new("memory|usage", -3, ReadUncacheable, Keys::SECOND),
];

const MODULE: &[Command] = &[
    Command::new("module|help", 2, Other, Keys::None),
    Command::new("module|list", 2, Other, Keys::None),
    Command::new("module|load", -3, WriteEverything, Keys::None),
    Command::new("module|loadex", -3, WriteEverything, Keys::None),
    Command::new("module|unload", 3, WriteEverything, Keys::None),
];

const SLOWLOG: &[Command] = &[
    Command::new("slowlog|get", -2, Other, Keys::None),
    Command::new("slowlog|help", 2, Other, Keys::None),
    Command::new("slowlog|len", 2, Other, Keys::None),
    Command::new("slowlog|reset", 2, Other, Keys::None),
];
