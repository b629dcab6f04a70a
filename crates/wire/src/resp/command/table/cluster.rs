//! Cluster topology.

use super::super::Effect::{Connection, Other, ReadUncacheable, WriteEverything};
use super::super::{Command, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("asking", 1, Connection, Keys::None),
    Command::new("cluster", -2, Other, Keys::None).containing(CLUSTER),
    Command::new("clusterscan", -2, ReadUncacheable, Keys::None),
    Command::new("readonly", 1, Connection, Keys::None),
    Command::new("readwrite", 1, Connection, Keys::None),
];

const CLUSTER: &[Command] = &[
    Command::new("cluster|addslots", -3, WriteEverything, Keys::None),
    Command::new("cluster|addslotsrange", -4, WriteEverything, Keys::None),
    Command::new("cluster|bumpepoch", 2, WriteEverything, Keys::None),
    Command::new("cluster|cancelslotmigrations", 2, WriteEverything, Keys::None),
    Command::new("cluster|count-failure-reports", 3, Other, Keys::None),
    Command::new("cluster|countkeysinslot", 3, ReadUncacheable, Keys::None),
    Command::new("cluster|delslots", -3, WriteEverything, Keys::None),
    Command::new("cluster|delslotsrange", -4, WriteEverything, Keys::None),
    Command::new("cluster|failover", -2, WriteEverything, Keys::None),
    Command::new("cluster|flushslot", -3, WriteEverything, Keys::None),
    Command::new("cluster|flushslots", 2, WriteEverything, Keys::None),
    Command::new("cluster|forget", 3, WriteEverything, Keys::None),
    Command::new("cluster|getkeysinslot", 4, ReadUncacheable, Keys::None),
    Command::new("cluster|getslotmigrations", 2, Other, Keys::None),
    Command::new("cluster|help", 2, Other, Keys::None),
    Command::new("cluster|info", 2, Other, Keys::None),
    Command::new("cluster|keyslot", 3, Other, Keys::None),
    Command::new("cluster|links", 2, Other, Keys::None),
    Command::new("cluster|meet", -4, WriteEverything, Keys::None),
    Command::new("cluster|migrateslots", -4, WriteEverything, Keys::None),
    Command::new("cluster|myid", 2, Other, Keys::None),
    Command::new("cluster|myshardid", 2, Other, Keys::None),
    Command::new("cluster|nodes", 2, Other, Keys::None),
    Command::new("cluster|replicas", 3, Other, Keys::None),
    Command::new("cluster|replicate", -3, WriteEverything, Keys::None),
    Command::new("cluster|reset", -2, WriteEverything, Keys::None),
    Command::new("cluster|saveconfig", 2, Other, Keys::None),
    Command::new("cluster|set-config-epoch", 3, WriteEverything, Keys::None),
    Command::new("cluster|setslot", -4, WriteEverything, Keys::None),
    Command::new("cluster|shards", 2, Other, Keys::None),
    Command::new("cluster|slaves", 3, Other, Keys::None),
    Command::new("cluster|slot-stats", -4, Other, Keys::None),
    Command::new("cluster|slots", 2, Other, Keys::None),
    Command::new("cluster|syncslots", -3, WriteEverything, Keys::None),
];
