//! The connection and its transactions.

use super::super::Effect::{Connection, Other, Transaction};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{ADMIN_ALWAYS, ALWAYS, F, NONE, OPEN, OWN};

pub(super) const COMMANDS: &[Command] = &[
    row("auth", -2, Connection, Keys::None, OPEN),
    row("client", -2, Connection, Keys::None, NONE).containing(CLIENT),
    row("discard", 1, Transaction, Keys::None, OWN.and(F)).within(Categories::TRANSACTION),
    row("echo", 2, Other, Keys::None, ALWAYS.and(F)),
    row("exec", 1, Transaction, Keys::None, OWN).within(Categories::TRANSACTION),
    row("hello", -1, Connection, Keys::None, OPEN),
    row("multi", 1, Transaction, Keys::None, OWN.and(F)).within(Categories::TRANSACTION),
    row("ping", -1, Other, Keys::None, F),
    row("quit", -1, Connection, Keys::None, OPEN),
    row("reset", 1, Connection, Keys::None, OPEN),
    row("select", 2, Connection, Keys::None, ALWAYS.and(F)),
    row("unwatch", 1, Transaction, Keys::None, OWN.and(F)).within(Categories::TRANSACTION),
    row("watch", -2, Transaction, Keys::ALL, OWN.and(F)).within(Categories::TRANSACTION),
];

const CLIENT: &[Command] = &[
    row("client|caching", 3, Connection, Keys::None, OWN),
    row("client|capa", -3, Connection, Keys::None, OWN),
    row("client|getname", 2, Connection, Keys::None, OWN),
    row("client|getredir", 2, Connection, Keys::None, OWN),
    row("client|help", 2, Connection, Keys::None, ALWAYS),
    row("client|id", 2, Connection, Keys::None, OWN),
    row("client|import-source", 3, Connection, Keys::None, OWN),
    row("client|info", 2, Connection, Keys::None, OWN),
    row("client|kill", -3, Connection, Keys::None, ADMIN_ALWAYS),
    row("client|list", -2, Connection, Keys::None, ADMIN_ALWAYS),
    // Redis 8; redis-py sends it on every new connection.
    row("client|maint_notifications", -3, Connection, Keys::None, OWN),
    row("client|no-evict", 3, Connection, Keys::None, ADMIN_ALWAYS),
    row("client|no-touch", 3, Connection, Keys::None, OWN),
    row("client|pause", -3, Connection, Keys::None, ADMIN_ALWAYS),
    row("client|reply", 3, Connection, Keys::None, OWN),
    row("client|setinfo", 4, Connection, Keys::None, OWN),
    row("client|setname", 3, Connection, Keys::None, OWN),
    row("client|tracking", -3, Connection, Keys::None, OWN),
    row("client|trackinginfo", 2, Connection, Keys::None, OWN),
    row("client|unblock", -3, Connection, Keys::None, ADMIN_ALWAYS),
    row("client|unpause", 2, Connection, Keys::None, ADMIN_ALWAYS),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::CONNECTION)
}
