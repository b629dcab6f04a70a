//! The server itself.

use super::super::Effect::{
    Access, Other, PubSub, ReadUncacheable, Write, WriteDatabase, WriteEverything,
};
use super::super::{Categories, Command, Flags, Keys, Merge, Shards};
use super::{ADMIN_ALWAYS, ALWAYS, EVERY, F, NONE, OWN, R, RF, W, WF, WM};

const ADMIN: Flags = Flags::ADMIN.and(Flags::NOSCRIPT);
const AT_RISK: Categories = Categories::KEYSPACE.and(Categories::DANGEROUS);
const SUPERVISION: Categories = Categories::ADMIN.and(Categories::DANGEROUS);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("acl", -2, Other, Keys::None, NONE).containing(ACL),
    Command::new("bgrewriteaof", 1, Other, Keys::None, ADMIN),
    Command::new("bgsave", -1, Other, Keys::None, ADMIN),
    Command::new("command", -1, Other, Keys::None, ALWAYS)
        .containing(COMMAND)
        .within(Categories::CONNECTION),
    Command::new("commandlog", -2, Other, Keys::None, NONE).containing(COMMANDLOG),
    Command::new("config", -2, Other, Keys::None, NONE).containing(CONFIG),
    Command::new("dbsize", 1, ReadUncacheable, Keys::None, RF)
        .within(Categories::KEYSPACE)
        .by(Shards::All(Merge::Sum)),
    Command::new("debug", -2, WriteEverything, Keys::None, ADMIN_ALWAYS),
    Command::new("failover", -1, WriteEverything, Keys::None, ADMIN.and(Flags::STALE)),
    Command::new("flushall", -1, WriteEverything, Keys::None, W).within(AT_RISK).by(EVERY),
    Command::new("flushdb", -1, WriteDatabase, Keys::None, W).within(AT_RISK).by(EVERY),
    Command::new("info", -1, Other, Keys::None, ALWAYS).within(Categories::DANGEROUS),
    Command::new("lastsave", 1, Other, Keys::None, ALWAYS.and(F)).within(SUPERVISION),
    Command::new("latency", -2, Other, Keys::None, NONE).containing(LATENCY),
    Command::new("lolwut", -1, Other, Keys::None, RF),
    Command::new("memory", -2, Other, Keys::None, NONE).containing(MEMORY),
    Command::new("module", -2, WriteEverything, Keys::None, NONE).containing(MODULE),
    Command::new("monitor", 1, PubSub, Keys::None, ADMIN_ALWAYS),
    Command::new("psync", -3, PubSub, Keys::None, ADMIN.and(Flags::NO_MULTI)),
    // Part of the replication protocol; ACK has no reply.
    Command::new("replconf", -1, PubSub, Keys::None, ADMIN_ALWAYS),
    Command::new("replicaof", 3, WriteEverything, Keys::None, ADMIN.and(Flags::STALE)),
    Command::new("restore-asking", -4, Write, Keys::FIRST, WM).within(AT_RISK),
    // Command of `enroute db` that changes its memory while it serves.
    Command::new("rescale", -1, WriteEverything, Keys::None, ADMIN_ALWAYS),
    Command::new("role", 1, Other, Keys::None, OWN.and(F)).within(SUPERVISION),
    Command::new("save", 1, Other, Keys::None, ADMIN.and(Flags::NO_MULTI)),
    // The server may restart with an older snapshot.
    Command::new("shutdown", -1, WriteEverything, Keys::None, ADMIN_ALWAYS.and(Flags::NO_MULTI)),
    Command::new("slaveof", 3, WriteEverything, Keys::None, ADMIN.and(Flags::STALE)),
    Command::new("slowlog", -2, Other, Keys::None, NONE).containing(SLOWLOG),
    Command::new("swapdb", 3, WriteEverything, Keys::None, WF).within(AT_RISK),
    Command::new("sync", 1, PubSub, Keys::None, ADMIN.and(Flags::NO_MULTI)),
    Command::new("time", 1, ReadUncacheable, Keys::None, ALWAYS.and(F)),
    // Not in the category of blocking commands before Redis 7.2.
    Command::new("wait", 3, Other, Keys::None, Flags::NOSCRIPT)
        .with(Flags::BLOCKING)
        .within(Categories::CONNECTION),
    Command::new("waitaof", 4, Other, Keys::None, NONE).within(Categories::CONNECTION).blocking(),
];

const ACL: &[Command] = &[
    Command::new("acl|cat", -2, Other, Keys::None, OWN),
    Command::new("acl|deluser", -3, Access, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|dryrun", -4, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|genpass", -2, Other, Keys::None, OWN),
    Command::new("acl|getuser", 3, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|help", 2, Other, Keys::None, ALWAYS),
    Command::new("acl|list", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|load", 2, Access, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|log", -2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|save", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|setuser", -3, Access, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|users", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("acl|whoami", 2, Other, Keys::None, OWN),
];

const COMMAND: &[Command] = &[
    Command::new("command|count", 2, Other, Keys::None, ALWAYS).within(Categories::CONNECTION),
    Command::new("command|docs", -2, Other, Keys::None, ALWAYS).within(Categories::CONNECTION),
    Command::new("command|getkeys", -3, Other, Keys::None, ALWAYS).within(Categories::CONNECTION),
    Command::new("command|getkeysandflags", -3, Other, Keys::None, ALWAYS)
        .within(Categories::CONNECTION),
    Command::new("command|help", 2, Other, Keys::None, ALWAYS).within(Categories::CONNECTION),
    Command::new("command|info", -2, Other, Keys::None, ALWAYS).within(Categories::CONNECTION),
    Command::new("command|list", -2, Other, Keys::None, ALWAYS).within(Categories::CONNECTION),
];

const COMMANDLOG: &[Command] = &[
    Command::new("commandlog|get", 4, Other, Keys::None, ALWAYS.and(Flags::ADMIN)),
    Command::new("commandlog|help", 2, Other, Keys::None, ALWAYS),
    Command::new("commandlog|len", 3, Other, Keys::None, ALWAYS.and(Flags::ADMIN)),
    Command::new("commandlog|reset", 3, Other, Keys::None, ALWAYS.and(Flags::ADMIN)),
];

const CONFIG: &[Command] = &[
    Command::new("config|get", -3, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("config|help", 2, Other, Keys::None, ALWAYS),
    Command::new("config|resetstat", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("config|rewrite", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("config|set", -4, Other, Keys::None, ADMIN_ALWAYS),
];

const LATENCY: &[Command] = &[
    Command::new("latency|doctor", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("latency|graph", 3, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("latency|help", 2, Other, Keys::None, ALWAYS),
    Command::new("latency|histogram", -2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("latency|history", 3, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("latency|latest", 2, Other, Keys::None, ADMIN_ALWAYS),
    Command::new("latency|reset", -2, Other, Keys::None, ADMIN_ALWAYS),
];

const MEMORY: &[Command] = &[
    Command::new("memory|doctor", 2, Other, Keys::None, NONE),
    Command::new("memory|help", 2, Other, Keys::None, ALWAYS),
    Command::new("memory|malloc-stats", 2, Other, Keys::None, NONE),
    Command::new("memory|purge", 2, Other, Keys::None, NONE),
    Command::new("memory|stats", 2, Other, Keys::None, NONE),
    Command::new("memory|usage", -3, ReadUncacheable, Keys::SECOND, R),
];

const MODULE: &[Command] = &[
    Command::new("module|help", 2, Other, Keys::None, ALWAYS),
    Command::new("module|list", 2, Other, Keys::None, ADMIN),
    Command::new("module|load", -3, WriteEverything, Keys::None, ADMIN),
    Command::new("module|loadex", -3, WriteEverything, Keys::None, ADMIN),
    Command::new("module|unload", 3, WriteEverything, Keys::None, ADMIN),
];

const SLOWLOG: &[Command] = &[
    Command::new("slowlog|get", -2, Other, Keys::None, ALWAYS.and(Flags::ADMIN)),
    Command::new("slowlog|help", 2, Other, Keys::None, ALWAYS),
    Command::new("slowlog|len", 2, Other, Keys::None, ALWAYS.and(Flags::ADMIN)),
    Command::new("slowlog|reset", 2, Other, Keys::None, ALWAYS.and(Flags::ADMIN)),
];
