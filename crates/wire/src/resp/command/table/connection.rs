//! The connection and its transactions.

use super::super::Effect::{Connection, Other, Transaction};
use super::super::{Command, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("auth", -2, Connection, Keys::None),
    Command::new("client", -2, Connection, Keys::None).containing(CLIENT),
    Command::new("discard", 1, Transaction, Keys::None),
    Command::new("echo", 2, Other, Keys::None),
    Command::new("exec", 1, Transaction, Keys::None),
    Command::new("hello", -1, Connection, Keys::None),
    Command::new("multi", 1, Transaction, Keys::None),
    Command::new("ping", -1, Other, Keys::None),
    Command::new("quit", -1, Connection, Keys::None),
    Command::new("reset", 1, Connection, Keys::None),
    Command::new("select", 2, Connection, Keys::None),
    Command::new("unwatch", 1, Transaction, Keys::None),
    Command::new("watch", -2, Transaction, Keys::ALL),
];

const CLIENT: &[Command] = &[
    Command::new("client|caching", 3, Connection, Keys::None),
    Command::new("client|capa", -3, Connection, Keys::None),
    Command::new("client|getname", 2, Connection, Keys::None),
    Command::new("client|getredir", 2, Connection, Keys::None),
    Command::new("client|help", 2, Connection, Keys::None),
    Command::new("client|id", 2, Connection, Keys::None),
    Command::new("client|import-source", 3, Connection, Keys::None),
    Command::new("client|info", 2, Connection, Keys::None),
    Command::new("client|kill", -3, Connection, Keys::None),
    Command::new("client|list", -2, Connection, Keys::None),
    // Redis 8; redis-py sends it on every new connection.
    Command::new("client|maint_notifications", -3, Connection, Keys::None),
    Command::new("client|no-evict", 3, Connection, Keys::None),
    Command::new("client|no-touch", 3, Connection, Keys::None),
    Command::new("client|pause", -3, Connection, Keys::None),
    Command::new("client|reply", 3, Connection, Keys::None),
    Command::new("client|setinfo", 4, Connection, Keys::None),
    Command::new("client|setname", 3, Connection, Keys::None),
    Command::new("client|tracking", -3, Connection, Keys::None),
    Command::new("client|trackinginfo", 2, Connection, Keys::None),
    Command::new("client|unblock", -3, Connection, Keys::None),
    Command::new("client|unpause", 2, Connection, Keys::None),
];
