//! Cluster topology.

use super::super::Effect::{Connection, Other, ReadUncacheable, WriteEverything};
use super::super::{Categories, Command, Flags, Keys};
use super::{ALWAYS, F, NONE, R};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("asking", 1, Connection, Keys::None, F).within(Categories::CONNECTION),
    Command::new("cluster", -2, Other, Keys::None, NONE).containing(CLUSTER),
    Command::new("clusterscan", -2, ReadUncacheable, Keys::None, R.and(Flags::STALE))
        .within(Categories::KEYSPACE),
    Command::new("readonly", 1, Connection, Keys::None, ALWAYS.and(F))
        .within(Categories::CONNECTION),
    Command::new("readwrite", 1, Connection, Keys::None, ALWAYS.and(F))
        .within(Categories::CONNECTION),
];

const CLUSTER: &[Command] = &[
    Command::new(
        "cluster|addslots",
        -3,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|addslotsrange",
        -4,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|bumpepoch",
        2,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|cancelslotmigrations",
        2,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|count-failure-reports",
        3,
        Other,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new("cluster|countkeysinslot", 3, ReadUncacheable, Keys::None, Flags::STALE),
    Command::new(
        "cluster|delslots",
        -3,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|delslotsrange",
        -4,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|failover",
        -2,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|flushslot",
        -3,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|flushslots",
        2,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new("cluster|forget", 3, WriteEverything, Keys::None, Flags::ADMIN.and(Flags::STALE)),
    Command::new("cluster|getkeysinslot", 4, ReadUncacheable, Keys::None, Flags::STALE),
    Command::new("cluster|getslotmigrations", 2, Other, Keys::None, Flags::ADMIN.and(Flags::STALE)),
    Command::new("cluster|help", 2, Other, Keys::None, ALWAYS),
    Command::new("cluster|info", 2, Other, Keys::None, Flags::STALE),
    Command::new("cluster|keyslot", 3, Other, Keys::None, Flags::STALE),
    Command::new("cluster|links", 2, Other, Keys::None, Flags::STALE),
    Command::new("cluster|meet", -4, WriteEverything, Keys::None, Flags::ADMIN.and(Flags::STALE)),
    Command::new(
        "cluster|migrateslots",
        -4,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new("cluster|myid", 2, Other, Keys::None, Flags::STALE),
    Command::new("cluster|myshardid", 2, Other, Keys::None, ALWAYS),
    Command::new("cluster|nodes", 2, Other, Keys::None, Flags::STALE),
    Command::new("cluster|replicas", 3, Other, Keys::None, Flags::ADMIN.and(Flags::STALE)),
    Command::new(
        "cluster|replicate",
        -3,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|reset",
        -2,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE),
    ),
    Command::new("cluster|saveconfig", 2, Other, Keys::None, Flags::ADMIN.and(Flags::STALE)),
    Command::new(
        "cluster|set-config-epoch",
        3,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new(
        "cluster|setslot",
        -4,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
    Command::new("cluster|shards", 2, Other, Keys::None, Flags::STALE),
    Command::new("cluster|slaves", 3, Other, Keys::None, Flags::ADMIN.and(Flags::STALE)),
    Command::new("cluster|slot-stats", -4, Other, Keys::None, ALWAYS),
    Command::new("cluster|slots", 2, Other, Keys::None, Flags::STALE),
    Command::new(
        "cluster|syncslots",
        -3,
        WriteEverything,
        Keys::None,
        Flags::ADMIN.and(Flags::STALE),
    ),
];
